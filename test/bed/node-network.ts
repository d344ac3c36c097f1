/** A node's network without a node: a namespace joined to this machine, with the real kube-proxy in it. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { parse } from "yaml";
import { renderKubeconfig } from "../../local/control-plane/state/kubeconfig.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { forwardTcp } from "./forward-tcp.ts";
import { createNode, startKubeProxy, whyNoKubeProxy } from "./kube-proxy.ts";
import { openNetwork, type Station, whyNoNetwork } from "./network.ts";
import { objectsOf } from "./objects.ts";
import { execute, type RunOptions, type RunResult, run } from "./run.ts";

export interface NodeNetwork extends AsyncDisposable {
  readonly nodeName: string;
  /** Of the network, for `ip netns exec`. */
  readonly namespace: string;
  /** This machine's address in it: servers under test bind to it, and EndpointSlices may hold it. */
  readonly hostAddress: string;
  /** curl as a client on the node would run it; a curl that fails is a result, not an error. */
  readonly curlInside: (args: readonly string[], options?: RunOptions) => Promise<RunResult>;
  /** Until a connection to this address is accepted. One process retries it. */
  readonly untilConnected: (address: string, port: number) => Promise<void>;
}

export interface NetworkedCluster {
  readonly kubeconfig: string;
}

/** Why this machine cannot do it. */
export const whyNoNodeNetwork = (): string | undefined => whyNoNetwork() ?? whyNoKubeProxy();

/** Resolves when kube-proxy has synchronised its rules once; disposal leaves no namespace, device or process. */
export async function startNodeNetwork(cluster: NetworkedCluster): Promise<NodeNetwork> {
  await using stack = new AsyncDisposableStack();
  const network = stack.use(await openNetwork(["node"]));
  const station = network.station("node");
  const dir = stack.use(await temporaryFolder()).path;
  const objects = stack.use(objectsOf(cluster.kubeconfig));
  const api = await apiServerSeenFrom(network.gateway, cluster);
  stack.defer(api.close);
  const nodeName = `node-${station.namespace}`;
  stack.defer(async () => {
    await objects.startRemoval("", `node/${nodeName}`).catch(() => {});
  });
  const kubeconfig = path.join(dir, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig, { mode: 0o600 });
  await createNode(objects, nodeName, station);
  const proxy = await startKubeProxy({ kubeconfig, station, nodeName, dir });
  stack.defer(async () => {
    await proxy.stop();
  });
  const kept = stack.move();
  return {
    nodeName,
    namespace: station.namespace,
    hostAddress: network.gateway,
    curlInside: curlIn(station),
    untilConnected: async (address, port) => {
      const open = `timeout 2 bash -c 'exec 3<>/dev/tcp/${address}/${port}'`;
      const [program = "nsenter", ...prefix] = station.inside;
      const loop = `until ${open} 2>/dev/null; do sleep 0.1; done`;
      await run(program, [...prefix, "bash", "-c", loop], { timeoutMs: 120_000 });
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** The API server listens on loopback, which the namespace cannot reach: its bytes are carried over, TLS and all. */
async function apiServerSeenFrom(gateway: string, cluster: NetworkedCluster) {
  const known = parse(await readFile(cluster.kubeconfig, "utf8")) as KnownKubeconfig;
  const [entry] = known.clusters;
  const [user] = known.users;
  if (entry === undefined || user === undefined) throw new Error(`${cluster.kubeconfig} names no cluster`);
  const server = new URL(entry.cluster.server);
  const to = { host: server.hostname, port: Number(server.port) };
  const forward = await forwardTcp({ listen: gateway, to });
  const kubeconfig = renderKubeconfig({
    url: `https://${gateway}:${forward.port}`,
    certificateAuthority: Buffer.from(entry.cluster["certificate-authority-data"], "base64").toString("utf8"),
    token: user.user.token,
    user: "kube-proxy",
    tlsServerName: "kubernetes",
  });
  return { kubeconfig, close: forward.close };
}

interface KnownKubeconfig {
  readonly clusters: readonly { cluster: { server: string; "certificate-authority-data": string } }[];
  readonly users: readonly { user: { token: string } }[];
}

function curlIn({ inside }: Station): NodeNetwork["curlInside"] {
  const [program = "nsenter", ...prefix] = inside;
  return (args, options) =>
    execute(program, [...prefix, "curl", "--silent", "--show-error", ...args], {
      timeoutMs: 30_000,
      ...options,
    });
}
