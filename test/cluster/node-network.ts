/** A node's network without a node: a namespace joined to this machine by a veth pair, with the real kube-proxy in it. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parse } from "yaml";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { findClusterParts } from "../../cli/control-plane/parts.ts";
import { startWatched, type WatchedChild } from "../../cli/control-plane/process/watched-child.ts";
import { renderKubeconfig } from "../../cli/control-plane/state/kubeconfig.ts";
import type { TestCluster } from "./cluster.ts";
import { forwardTcp } from "./forward-tcp.ts";
import { createNamespacePair, type NamespacePair, whyNotHere } from "./network-namespace.ts";

export interface InsideResult {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

export interface NodeNetwork extends AsyncDisposable {
  readonly nodeName: string;
  /** Of the network, for `ip netns exec`. */
  readonly namespace: string;
  /** This machine's side of the pair: servers under test bind to it, and EndpointSlices may hold it. */
  readonly hostAddress: string;
  readonly insideAddress: string;
  /** curl as a client on the node would run it; a curl that fails is a result, not an error. */
  readonly curlInside: (args: readonly string[], options?: CurlOptions) => Promise<InsideResult>;
}

export interface CurlOptions {
  readonly timeoutMs?: number;
  /** Sees output as it comes, for streamed answers. */
  readonly onStdout?: (chunk: string) => void;
}

export type NetworkedCluster = Pick<TestCluster, "kubeconfig" | "kubectl">;

/** Whether this machine can do it, and if not, the sentence for the skipped test. */
export function canRunNodeNetwork(): { readonly ok: true } | { readonly ok: false; readonly why: string } {
  const why = whyNotHere() ?? whyNoKubeProxy();
  return why === undefined ? { ok: true } : { ok: false, why };
}

/** Resolves when kube-proxy has synchronised its rules once; disposal leaves no namespace, device or process. */
export async function startNodeNetwork(cluster: NetworkedCluster): Promise<NodeNetwork> {
  const cleanups: (() => Promise<unknown>)[] = [];
  const dispose = async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup().catch(() => {});
  };
  try {
    const pair = await createNamespacePair();
    cleanups.push(pair.remove);
    const nodeName = `node-${pair.name}`;
    const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-node-"));
    cleanups.push(() => rm(dir, { recursive: true, force: true }));
    const api = await apiServerSeenFrom(pair, cluster);
    cleanups.push(api.close);
    await createNode(cluster, nodeName, pair.insideAddress);
    cleanups.push(() => cluster.kubectl(["delete", "node", nodeName, "--ignore-not-found", "--wait=false"]));
    const kubeconfig = path.join(dir, "kubeconfig");
    await writeFile(kubeconfig, api.kubeconfig, { mode: 0o600 });
    const proxy = startKubeProxy(pair, { nodeName, kubeconfig, dir });
    cleanups.push(proxy.stop);
    const curlInside = curlIn(pair);
    await untilSynchronised(curlInside, path.join(dir, "kube-proxy.log"));
    const { name: namespace, hostAddress, insideAddress } = pair;
    return { nodeName, namespace, hostAddress, insideAddress, curlInside, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** The API server listens on loopback, which the namespace cannot reach: its bytes are carried over, TLS and all. */
async function apiServerSeenFrom(pair: NamespacePair, cluster: NetworkedCluster) {
  const known = parse(await readFile(cluster.kubeconfig, "utf8")) as KnownKubeconfig;
  const [entry] = known.clusters;
  const [user] = known.users;
  if (entry === undefined || user === undefined) throw new Error(`${cluster.kubeconfig} names no cluster`);
  const server = new URL(entry.cluster.server);
  const forward = await forwardTcp({
    listen: pair.hostAddress,
    to: { host: server.hostname, port: Number(server.port) },
  });
  const kubeconfig = renderKubeconfig({
    url: `https://${pair.hostAddress}:${forward.port}`,
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

/** kube-proxy asks for its own address here. */
async function createNode(cluster: NetworkedCluster, name: string, address: string): Promise<void> {
  const node = { apiVersion: "v1", kind: "Node", metadata: { name } };
  await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(node) });
  const status = { status: { addresses: [{ type: "InternalIP", address }] } };
  await cluster.kubectl([
    "patch",
    "node",
    name,
    "--subresource=status",
    "--type=merge",
    "-p",
    JSON.stringify(status),
  ]);
}

function startKubeProxy(
  pair: NamespacePair,
  input: { readonly nodeName: string; readonly kubeconfig: string; readonly dir: string },
): WatchedChild {
  const { kubeProxy } = findClusterParts(readPartsConfig());
  if (kubeProxy === undefined) throw new Error("kube-proxy is missing; ask canRunNodeNetwork first");
  const command = [
    kubeProxy,
    "--proxy-mode=nftables",
    `--kubeconfig=${input.kubeconfig}`,
    `--hostname-override=${input.nodeName}`,
    "--conntrack-max-per-core=0",
    "--healthz-bind-address=127.0.0.1:10256",
    "--metrics-bind-address=127.0.0.1:10249",
  ];
  return startWatched({
    name: "kube-proxy",
    program: "/bin/sh",
    args: ["-c", 'exec "$@"', "sh", "ip", "netns", "exec", pair.name, ...command],
    env: {},
    cwd: input.dir,
    logFile: path.join(input.dir, "kube-proxy.log"),
    graceMs: 2_000,
    orphanGraceMs: 1_000,
  });
}

function curlIn(pair: NamespacePair): NodeNetwork["curlInside"] {
  return (args, options = {}) =>
    new Promise((resolve) => {
      const child = execFile(
        "ip",
        ["netns", "exec", pair.name, "curl", "--silent", "--show-error", ...args],
        { timeout: options.timeoutMs ?? 30_000, killSignal: "SIGKILL", maxBuffer: 64 * 1024 * 1024 },
        (error, stdout, stderr) => {
          resolve({ code: error === null ? 0 : (error.code ?? error.signal ?? "unknown"), stdout, stderr });
        },
      );
      child.stdout?.on("data", (chunk) => options.onStdout?.(String(chunk)));
    });
}

async function untilSynchronised(curlInside: NodeNetwork["curlInside"], logFile: string): Promise<void> {
  const look = ["-m", "2", "-w", "%{http_code}", "-o", "/dev/null", HEALTHZ];
  for (const until = performance.now() + READY_TIMEOUT_MS; ; await pause(POLL_MS)) {
    const { stdout, stderr } = await curlInside(look);
    if (stdout === "200") return;
    if (performance.now() < until) continue;
    const log = await readFile(logFile, "utf8").catch(() => "");
    throw new Error(
      `kube-proxy is not ready (${stdout} ${stderr}); its log ends with:\n${log.slice(-2_000)}`,
    );
  }
}

const READY_TIMEOUT_MS = 30_000;
const POLL_MS = 100;
const HEALTHZ = "http://127.0.0.1:10256/healthz";

function whyNoKubeProxy(): string | undefined {
  try {
    const found = findClusterParts(readPartsConfig()).kubeProxy;
    return found === undefined
      ? "kube-proxy is not installed: npm run setup -- --for test builds it"
      : undefined;
  } catch {
    return "the control plane's programs are not installed: npm run setup";
  }
}
