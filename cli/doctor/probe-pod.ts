/** A pod that connects to addresses of a host through the pod network, and exits. Pure. */
import {
  probeState,
  readWaitingPod,
  runOnceContainer,
  WITHOUT_MESH,
} from "../../controller/workload/one-shot-pod.ts";
import type { Pod, PodSpec } from "../../src/kube/workload-objects.ts";

/** Time limit for one connection. */
const CONNECT_MS = 5_000;

export interface ReachPodPlan {
  readonly name: string;
  readonly namespace: string;
  readonly image: string;
  readonly pullSecrets: NonNullable<PodSpec["imagePullSecrets"]>;
  /** `address:port`, IPv6 without brackets. */
  readonly targets: readonly string[];
  readonly deadlineSeconds: number;
}

/** Plain JavaScript for any Node: prints a line for each target that did not answer, and fails if there is one. */
const SCRIPT = `const net = require("node:net");
const tries = process.argv.slice(1).map((target) => new Promise((resolve) => {
  const at = target.lastIndexOf(":");
  const socket = net.connect({ host: target.slice(0, at), port: Number(target.slice(at + 1)) });
  const end = (why) => { socket.destroy(); clearTimeout(late); resolve(why && target + " " + why); };
  const late = setTimeout(() => end("ETIMEDOUT"), ${CONNECT_MS});
  socket.on("connect", () => end(""));
  socket.on("error", (error) => end(error.code));
}));
Promise.all(tries).then((all) => {
  const failed = all.filter(Boolean);
  if (failed.length > 0) process.exitCode = 1;
  console.log(failed.join("\\n"));
});`;

export function probePod({ name, namespace, targets, ...plan }: ReachPodPlan): Pod {
  return {
    metadata: {
      name,
      namespace,
      labels: { ...WITHOUT_MESH.labels, "app.kubernetes.io/name": "metalbridge-probe" },
      annotations: WITHOUT_MESH.annotations,
    },
    spec: runOnceContainer(plan, {
      // In the controller's image, Node is in a folder outside the usual PATH.
      env: [{ name: "PATH", value: "/nodejs/bin:/usr/local/bin:/usr/bin:/bin" }],
      command: ["node", "-e", SCRIPT, ...targets],
      resources: { requests: { cpu: "10m", memory: "32Mi" }, limits: { memory: "128Mi" } },
    }),
  };
}

export type ReachProbeResult =
  /** Error code by target, for failed connections only. */
  | { readonly at: "ran"; readonly failed: ReadonlyMap<string, string>; readonly node: string }
  | { readonly at: "waiting"; readonly why: string }
  /** The pod will not run without a change. */
  | { readonly at: "stuck"; readonly why: string };

export function readProbe(pod: Pod): ReachProbeResult {
  const node = pod.spec.nodeName ?? "?";
  const ended = probeState(pod)?.terminated;
  // The proxy of a service mesh may keep the pod running after the probe has exited.
  const phase = ended === undefined ? pod.status?.phase : ended.exitCode === 0 ? "Succeeded" : "Failed";
  switch (phase) {
    case "Succeeded":
      return { at: "ran", failed: new Map(), node };
    case "Failed": {
      const failed = parseFailures(ended?.message ?? "");
      return failed.size > 0 ? { at: "ran", failed, node } : { at: "stuck", why: failureText(pod) };
    }
    default:
      return readWaitingPod(pod);
  }
}

function failureText(pod: Pod): string {
  const { reason, message, exitCode } = probeState(pod)?.terminated ?? {};
  const exit = exitCode === undefined ? "" : `exit code ${exitCode}`;
  return [pod.status?.reason ?? reason, pod.status?.message ?? message, exit].filter(Boolean).join(": ");
}

function parseFailures(printed: string): ReadonlyMap<string, string> {
  const lines = printed.split("\n").map((line) => /^(\S+:\d+) ([A-Z_]+)$/.exec(line));
  return new Map(lines.flatMap((found) => (found === null ? [] : [[found[1] ?? "", found[2] ?? ""]])));
}
