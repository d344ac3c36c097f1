/** The real kube-proxy in a station's namespace, which makes cluster addresses of Services work there. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findClusterParts } from "../../local/control-plane/parts.ts";
import { tailOf } from "../../local/control-plane/process/log-tail.ts";
import { startWatched, type WatchedChild } from "../../local/control-plane/process/watched-child.ts";
import type { Station } from "./network.ts";
import type { Objects } from "./objects.ts";
import { run } from "./run.ts";
import { until } from "./until.ts";

export interface KubeProxyOptions {
  /** Its API server has to be reachable from the station. */
  readonly kubeconfig: string;
  readonly station: Station;
  readonly nodeName: string;
  /** Of its own, for the log. */
  readonly dir: string;
}

const HEALTHZ = "http://127.0.0.1:10256/healthz";

/** Undefined where kube-proxy is installed, else the reason for skipping a test. */
export function whyNoKubeProxy(): string | undefined {
  try {
    if (findClusterParts(readPartsConfig()).kubeProxy !== undefined) return undefined;
    return "kube-proxy is not installed: npm run setup -- --for test builds it";
  } catch {
    return "the control plane's programs are not installed: npm run setup";
  }
}

/** Resolves when it has synchronised its rules once. There has to be a Node of that name. */
export async function startKubeProxy(options: KubeProxyOptions): Promise<WatchedChild> {
  const { station, dir } = options;
  const program = findClusterParts(readPartsConfig()).kubeProxy;
  if (program === undefined) throw new Error(whyNoKubeProxy());
  mkdirSync(dir, { recursive: true });
  const logFile = path.join(dir, "kube-proxy.log");
  const proxy = startWatched({
    name: "kube-proxy",
    program: "/bin/sh",
    args: ["-c", 'exec "$@"', "sh", ...station.inside, program, ...flags(options)],
    env: {},
    cwd: dir,
    logFile,
    graceMs: 2_000,
    orphanGraceMs: 1_000,
  });
  try {
    await untilSynchronised(station, logFile);
    return proxy;
  } catch (error) {
    await proxy.stop();
    throw error;
  }
}

/** For a kube-proxy without a kubelet, which reads its own address from there. */
export async function createNode(objects: Objects, nodeName: string, station: Station): Promise<void> {
  await objects.apply({ apiVersion: "v1", kind: "Node", metadata: { name: nodeName } });
  const status = { addresses: [{ type: "InternalIP", address: station.address }] };
  await objects.patch("", `node/${nodeName}`, { status }, "status");
}

function flags({ kubeconfig, nodeName }: KubeProxyOptions): readonly string[] {
  return [
    "--proxy-mode=nftables",
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${nodeName}`,
    "--conntrack-max-per-core=0",
    "--healthz-bind-address=127.0.0.1:10256",
    "--metrics-bind-address=127.0.0.1:10249",
  ];
}

async function untilSynchronised(station: Station, logFile: string): Promise<void> {
  const [program = "nsenter", ...prefix] = station.inside;
  const request = ["curl", "-sS", "-m", "2", "-o", "/dev/null", "-w", "%{http_code}", HEALTHZ];
  await until(
    async () => {
      const answer = await run(program, [...prefix, ...request]).catch((error: Error) => error.message);
      if (answer === "200") return;
      throw new Error(`kube-proxy is not ready (${answer}); the end of its log:\n${tailOf(logFile, 2_000)}`);
    },
    { everyMs: 100 },
  );
}
