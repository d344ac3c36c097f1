/** The real kube-proxy in the clients' namespace, which makes cluster addresses of Services work there. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startWatched, type WatchedChild } from "../../../cli/control-plane/process/watched-child.ts";
import type { Kubectl } from "../../cluster/kubectl.ts";
import { run } from "./command.ts";
import type { Station } from "./network.ts";

export interface KubeProxyOptions {
  readonly program: string;
  readonly kubeconfig: string;
  readonly kubectl: Kubectl;
  readonly station: Station;
  readonly dir: string;
}

const NODE = "torture-node";
const READY_MS = 30_000;

/** Resolves when it has synchronised its rules once. */
export async function startKubeProxy(options: KubeProxyOptions): Promise<WatchedChild> {
  const { program, kubeconfig, kubectl, station, dir } = options;
  mkdirSync(dir, { recursive: true });
  const node = { apiVersion: "v1", kind: "Node", metadata: { name: NODE } };
  await kubectl(["apply", "-f", "-"], { input: JSON.stringify(node) });
  const status = { status: { addresses: [{ type: "InternalIP", address: station.address }] } };
  const patch = ["--subresource=status", "--type=merge", "-p", JSON.stringify(status)];
  await kubectl(["patch", "node", NODE, ...patch]);
  const proxy = startWatched({
    name: "kube-proxy",
    program: "/bin/sh",
    args: ["-c", 'exec "$@"', "sh", ...station.inside, program, ...flags(kubeconfig)],
    env: {},
    cwd: dir,
    logFile: path.join(dir, "kube-proxy.log"),
    graceMs: 2_000,
    orphanGraceMs: 1_000,
  });
  try {
    await untilSynchronised(station, path.join(dir, "kube-proxy.log"));
    return proxy;
  } catch (error) {
    await proxy.stop();
    throw error;
  }
}

function flags(kubeconfig: string): readonly string[] {
  return [
    "--proxy-mode=nftables",
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${NODE}`,
    "--conntrack-max-per-core=0",
    "--healthz-bind-address=127.0.0.1:10256",
    "--metrics-bind-address=127.0.0.1:10249",
  ];
}

async function untilSynchronised(station: Station, logFile: string): Promise<void> {
  const [program = "nsenter", ...prefix] = station.inside;
  const ask = [
    "curl",
    "-sS",
    "-m",
    "2",
    "-o",
    "/dev/null",
    "-w",
    "%{http_code}",
    "http://127.0.0.1:10256/healthz",
  ];
  const deadline = performance.now() + READY_MS;
  for (;;) {
    const answer = await run(program, [...prefix, ...ask]).catch((error: Error) => error.message);
    if (answer === "200") return;
    if (performance.now() > deadline) throw new Error(`kube-proxy is not ready (${answer}); see ${logFile}`);
    await pause(100);
  }
}
