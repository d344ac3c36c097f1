/** A private cluster with real nodes: pods are containers, on nodes with a network of their own. */
import { callApi } from "../../local/control-plane/request.ts";
import { nodeImages } from "../../scripts/images/for-tests.ts";
import { type Network, openNetwork } from "../bed/network.ts";
import { prepareImages } from "../bed/node/images.ts";
import { removeNodeLeftovers } from "../bed/node/leftovers.ts";
import { API_SERVER_ARGS, type NodeOptions, prepareNode, type RealNode } from "../bed/node/node.ts";
import { nodeParts } from "../bed/node/parts.ts";
import { localStorageClass } from "../bed/node/volumes.ts";
import { RequestRefused } from "../bed/objects.ts";
import { one, type PrivateCluster, type PrivateClusterOptions, startCluster } from "./cluster.ts";

export interface RealCluster extends PrivateCluster {
  readonly network: Network;
  /** Those that every node has, as `prepareImages` left them. */
  readonly images: string;
  /** Those that it was started with. */
  readonly nodes: readonly RealNode[];
  readonly node: (name: string) => RealNode;
}

export interface RealClusterOptions extends Omit<PrivateClusterOptions, "bindAddress" | "dir"> {
  /** One, `node-1`, by default. */
  readonly nodes?: readonly NodeOptions[];
}

/** Resolves when every node is ready. */
export async function startRealCluster(options: RealClusterOptions = {}): Promise<RealCluster> {
  const { nodes: asked = [{ name: "node-1" }], apiServerArgs = [], ...rest } = options;
  await removeNodeLeftovers();
  await using stack = new AsyncDisposableStack();
  const network = stack.use(await openNetwork([]));
  const images = await prepareImages(nodeParts(), await nodeImages());
  const starting = startCluster({
    controllerManager: true,
    scheduler: true,
    ...rest,
    bindAddress: network.gateway,
    apiServerArgs: [...API_SERVER_ARGS, ...apiServerArgs],
  });
  const preparing = asked.map((node) => prepareNode(network, node, images));
  // Whatever fails, everything that was started is stopped.
  const results = await Promise.allSettled([starting, ...preparing]);
  for (const result of results) if (result.status === "fulfilled") stack.use(result.value);
  const cluster = await starting;
  const prepared = await Promise.all(preparing);
  const [nodes] = await Promise.all([
    Promise.all(prepared.map((node) => node.join(nodeClusterOf(cluster)))),
    createClass(cluster),
  ]);
  const kept = stack.move();
  const node = (name: string) => {
    const found = nodes.find((candidate) => candidate.name === name);
    if (found === undefined) throw new Error(`there is no node ${name}`);
    return found;
  };
  return { ...cluster, network, images, nodes, node, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** One more: `await using node = await startNode(cluster, { name: "node-2" })`. Disposal deletes its Node, too. */
export async function startNode(cluster: RealCluster, options: NodeOptions): Promise<RealNode> {
  await using stack = new AsyncDisposableStack();
  const prepared = stack.use(await prepareNode(cluster.network, options, cluster.images));
  const node = await prepared.join(nodeClusterOf(cluster));
  stack.defer(async () => {
    await cluster.objects.startRemoval("", `node/${options.name}`).catch((error: unknown) => {
      if (!(error instanceof RequestRefused && error.status === 404)) throw error;
    });
  });
  const kept = stack.move();
  return { ...node, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** One for all tests of a file or `describe`, as `oneCluster` is. */
export function oneRealCluster(options?: RealClusterOptions): () => RealCluster {
  return one(() => startRealCluster(options));
}

function nodeClusterOf({ kubeconfig, objects, access }: PrivateCluster) {
  return { kubeconfig, objects, access };
}

async function createClass({ access }: PrivateCluster): Promise<void> {
  const path = "/apis/storage.k8s.io/v1/storageclasses";
  const body = JSON.stringify(localStorageClass());
  const reply = await callApi(access, { method: "POST", path, body });
  if (reply.status !== 201) throw new Error(`the storage class: ${reply.body}`);
}
