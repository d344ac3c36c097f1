/** The farm under torture: a real control plane, three hosts in networks of their own, clients behind a real kube-proxy. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { installBasics } from "../../../local/control-plane/bootstrap.ts";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { findLlamaServer, findOllama } from "../../../local/control-plane/engine-programs.ts";
import { findClusterParts } from "../../../local/control-plane/parts.ts";
import { type ControlPlane, startControlPlane } from "../../../local/control-plane/start.ts";
import { nodeImages, OUR_IMAGE } from "../../../scripts/images/for-tests.ts";
import { customResourceDefinitions } from "../../../src/api/crd/definitions.ts";
import { connect, type KubeConnection } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { giveControllerIdentity } from "../../bed/identity.ts";
import { createNode, startKubeProxy } from "../../bed/kube-proxy.ts";
import { type Kubectl, kubectlFor } from "../../bed/kubectl.ts";
import { type Network, openNetwork } from "../../bed/network.ts";
import { prepareImages } from "../../bed/node/images.ts";
import { removeNodeLeftovers } from "../../bed/node/leftovers.ts";
import { API_SERVER_ARGS, type NodeCluster, prepareNode, type RealNode } from "../../bed/node/node.ts";
import { nodeParts } from "../../bed/node/parts.ts";
import { routePods } from "../../bed/node/pods-network.ts";
import { objectsOf } from "../../bed/objects.ts";
import { installRelease, type Release } from "../../bed/release.ts";
import { compactEtcd } from "../../cluster/etcd.ts";
import { quietLog } from "../../cluster/quiet-log.ts";
import { auditWatches } from "../observe/proxy.ts";
import { type EngineName, HOSTS, nodeNames, type ServiceName, servicesWith } from "../plan/catalog.ts";
import { type FleetObjects, fleetObjects } from "./fleet-objects.ts";
import { prepareGateway, type TestGateway } from "./gateway.ts";
import { prepareHost, type TestHost } from "./host.ts";
import { serveModels } from "./models.ts";
import { oneThreadOllama } from "./one-thread-ollama.ts";
import { type ControlledPart, controlPart } from "./process-control.ts";

export interface Bed extends AsyncDisposable {
  readonly network: Network;
  readonly controlPlane: ControlPlane;
  /** Where the API server writes down the watches of kube-proxy. */
  readonly auditFile: string;
  readonly compact: () => Promise<void>;
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  readonly objects: FleetObjects;
  readonly hosts: ReadonlyMap<string, TestHost>;
  readonly nodes: ReadonlyMap<string, RealNode>;
  readonly kubectl: Kubectl;
  readonly services: readonly ServiceName[];
  readonly controller: ControlledPart;
  readonly gateway: TestGateway;
  readonly releases: readonly [Release, Release];
}

/** The station behind kube-proxy, from which all requests come. */
export const CLIENTS = "clients";

type Keep = (cleanup: () => Promise<unknown>) => void;

/** Everything is there; agents and controller are not started, so that the recording can begin before them. */
export async function openBed(dir: string, engine: EngineName, nodes = 0): Promise<Bed> {
  const cleanups: (() => Promise<unknown>)[] = [];
  const dispose = async (): Promise<void> => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup().catch(() => {});
  };
  try {
    const bed = await build({ dir, engine, nodes }, (cleanup) => cleanups.push(cleanup));
    return { ...bed, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

interface Size {
  readonly dir: string;
  readonly engine: EngineName;
  readonly nodes: number;
}

async function build(
  { dir, engine, nodes: nodeCount }: Size,
  keep: Keep,
): Promise<Omit<Bed, typeof Symbol.asyncDispose>> {
  mkdirSync(dir, { recursive: true });
  const releases = ["1", "2"].map((which) =>
    installRelease(path.join(dir, "releases", which), `0.1.0-torture.${which}`),
  ) as unknown as readonly [Release, Release];
  const network = await openNetwork([...HOSTS, CLIENTS]);
  keep(async () => network[Symbol.asyncDispose]());
  const parts = findClusterParts(readPartsConfig());
  const audit = auditWatches(dir);
  const controlPlane = await startControlPlane({
    dir: path.join(dir, "cluster"),
    parts,
    log: quietLog,
    bindAddress: network.gateway,
    isThrowaway: true,
    controllerManager: true,
    scheduler: nodeCount > 0,
    apiServerArgs: [...audit.args, ...(nodeCount > 0 ? [...API_SERVER_ARGS, ...EVICTS_SOON] : [])],
    controllerManagerArgs: ["--node-monitor-grace-period=20s", "--node-monitor-period=1s"],
  });
  keep(controlPlane.stop);
  await installBasics(controlPlane.access, customResourceDefinitions());
  const { kubeconfig } = controlPlane;
  const kubectl = kubectlFor(kubeconfig);
  const objects = objectsOf(kubeconfig);
  keep(async () => objects[Symbol.dispose]());
  const models = await serveModels(network.gateway, path.join(dir, "models"));
  keep(async () => models[Symbol.asyncDispose]());
  await clients(dir, network, kubeconfig, keep);
  const connection = await connect({ kubeconfigPath: kubeconfig, userAgent: "metalbridge-torture" });
  keep(async () => connection.close());
  const client = createClient(connection);
  const controllerKubeconfig = path.join(dir, "controller.kubeconfig");
  await giveControllerIdentity({ kubeconfig }, controllerKubeconfig);
  const controller = controlPart({
    name: "controller",
    dir,
    inside: [],
    release: releases[0],
    args: [
      ...["controller", "--kubeconfig", controllerKubeconfig, "--health-port", "0"],
      ...["--allow-networks", network.cidr, "--image", OUR_IMAGE, "--benchmarks", "Off"],
    ],
  });
  keep(controller.dispose);
  const station = network.station(CLIENTS);
  const gateway = await prepareGateway({ dir, station, kubeconfig, client, release: releases[0] });
  keep(gateway.dispose);
  const hosts = await prepareHosts({ dir, network, controlPlane, release: releases[0], engine }, keep);
  const { access } = controlPlane;
  const nodes = await joinNodes(nodeCount, network, { kubeconfig, objects, access }, keep);
  return {
    network,
    controlPlane,
    connection,
    client,
    hosts,
    nodes,
    kubectl,
    controller,
    gateway,
    releases,
    services: servicesWith(nodeCount),
    auditFile: audit.file,
    compact: () => compactEtcd(controlPlane.etcdSocket),
    objects: fleetObjects(client, models, engine),
  };
}

async function clients(dir: string, network: Network, kubeconfig: string, keep: Keep): Promise<void> {
  using objects = objectsOf(kubeconfig);
  const nodeName = "torture-node";
  const station = network.station(CLIENTS);
  await createNode(objects, nodeName, station);
  const proxy = await startKubeProxy({ kubeconfig, nodeName, station, dir: path.join(dir, "kube-proxy") });
  keep(proxy.stop);
}

/** A pod leaves a node that is gone while the run can still see it. */
const EVICTS_SOON = [
  "--default-unreachable-toleration-seconds=10",
  "--default-not-ready-toleration-seconds=10",
];

/** Its loss is noticed after the grace period above; a crashing pod is not held back for longer than a farm may take to come right. */
const NODE = { leaseSeconds: 8, backOffSeconds: 5 };

async function joinNodes(
  count: number,
  network: Network,
  cluster: NodeCluster,
  keep: Keep,
): Promise<ReadonlyMap<string, RealNode>> {
  if (count === 0) return new Map();
  await removeNodeLeftovers();
  await routePods(network, network.station(CLIENTS));
  const images = await prepareImages(nodeParts(), await nodeImages());
  const joined = nodeNames(count).map(async (name) => {
    const prepared = await prepareNode(network, { name, ...NODE }, images);
    keep(async () => prepared[Symbol.asyncDispose]());
    return [name, await prepared.join(cluster)] as const;
  });
  return new Map(await Promise.all(joined));
}

async function prepareHosts(
  where: {
    readonly dir: string;
    readonly network: Network;
    readonly controlPlane: ControlPlane;
    readonly release: Release;
    readonly engine: EngineName;
  },
  keep: Keep,
): Promise<ReadonlyMap<string, TestHost>> {
  const { controlPlane, engine, ...rest } = where;
  const program = (engine === "ollama" ? findOllama : findLlamaServer)(readPartsConfig());
  if (program === undefined) throw new Error(`${engine} is not installed: npm run setup -- --for test`);
  const config =
    engine === "ollama"
      ? { ollama: { programs: [oneThreadOllama(program, path.join(rest.dir, "ollama"))] } }
      : {};
  const hosts = new Map<string, TestHost>();
  for (const name of HOSTS) {
    const { kubeconfig, port: apiPort } = controlPlane;
    const host = await prepareHost({ ...rest, name, kubeconfig, apiPort, config });
    keep(host.dispose);
    hosts.set(name, host);
  }
  return hosts;
}
