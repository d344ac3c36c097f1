/** `metalbridge doctor --from-cluster HOST`: checks from a pod whether the cluster reaches the ports of a host. */

import { randomUUID } from "node:crypto";
import {
  ANSWER_FILE,
  type ProbeEnd,
  runOnceContainer,
  WITHOUT_MESH,
} from "../../controller/pods/workload/one-shot-pod.ts";
import { defaultRemedy, MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { LABEL_HOST } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { CheckResult } from "../../src/doctor/checks/check.ts";
import { ENDPOINT_SLICES, PODS } from "../../src/kube/kinds.ts";
import type { Pod, PodSpec } from "../../src/kube/workload-objects.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { unwrapResult } from "../cluster/failure.ts";
import { findObject, listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { findController, runProbePod } from "../cluster/probe.ts";
import { readyEndpoints } from "../endpoint/target.ts";
import { listenForStop } from "../program/stop-signals.ts";
import type { DoctorReport } from "./render.ts";

export interface ProbeFlags extends ClusterFlags {
  /** Must contain Node. Absent: the image of the controller. */
  readonly image?: string;
  readonly timeout?: number;
}

/** Includes the time to pull the image. */
const TIMEOUT_MS = 60_000;
/** Time limit for one connection. */
const CONNECT_MS = 5_000;
/** Port to probe on a host that serves nothing: a refused connection proves that the host is reachable. */
const ANY_PORT = 21_000;
const CODE = "HostUnreachableFromCluster";

/** Creates a pod, and always deletes it. Throws HostNotFound, AddressUnknown or NoProbeImage. */
export async function probeFromCluster(name: string, flags: ProbeFlags): Promise<DoctorReport> {
  return withCluster("doctor", flags, async (cluster) => {
    const startMs = performance.now();
    const host = await findObject(cluster, HOSTS, name);
    const served = await servedBy(cluster, name);
    const targets = served.length > 0 ? served : addressesOf(host);
    const { end, namespace } = await runProbe(cluster, targets, { ...flags, host: name });
    return {
      host: name,
      platform: host.status?.info?.os ?? "",
      machine: `checked by a pod in namespace ${namespace}${end?.at === "answered" ? ` on node ${end.node ?? "?"}` : ""}`,
      tookMs: Math.round(performance.now() - startMs),
      results: resultsOf(targets, end, { isServing: served.length > 0 }),
      fixed: [],
      inventory: {},
    };
  });
}

/** The endpoints that kube-proxy sends requests to. */
async function servedBy(cluster: Cluster, host: string): Promise<readonly string[]> {
  const slices = await listAll(cluster, ENDPOINT_SLICES, { labelSelector: `${LABEL_HOST}=${host}` });
  return slices.flatMap((slice) => readyEndpoints([slice]).map(({ address, port }) => `${address}:${port}`));
}

function addressesOf({ metadata, status }: Host): readonly string[] {
  const addresses = status?.addresses ?? [];
  if (addresses.length === 0)
    throw new MetalbridgeError("AddressUnknown", `the agent of ${metadata.name} has published no address`);
  return addresses.map((address) => `${address}:${ANY_PORT}`);
}

async function runProbe(
  cluster: Cluster,
  targets: readonly string[],
  flags: ProbeFlags & { readonly host: string },
) {
  const limitMs = flags.timeout || TIMEOUT_MS;
  const { signal } = listenForStop();
  const { image, namespace, pullSecrets } = await findProbeImage(cluster, flags);
  const ref = { name: `metalbridge-probe-${randomUUID().slice(0, 8)}`, namespace };
  const deadlineSeconds = Math.max(1, Math.ceil(limitMs / 1_000));
  const pod = reachPod({ ...ref, image, pullSecrets, targets, deadlineSeconds });
  const ran = await runProbePod(cluster, pod, { signal, limitMs });
  return { end: unwrapResult({ verb: "create", kind: PODS, ...ref }, ran), namespace };
}

/** The given image, else that of the controller; and the namespace for the pod. Throws NoProbeImage. */
async function findProbeImage(cluster: Cluster, given: ProbeFlags & { readonly host: string }) {
  const controller = await findController(cluster);
  const image = given.image ?? controller?.image;
  if (image === undefined)
    throw new MetalbridgeError(
      "NoProbeImage",
      "the cluster has no controller whose image could be used",
      remedyOf("NoProbeImage", { host: given.host }),
    );
  const namespace = given.namespace ?? controller?.namespace ?? cluster.namespace;
  return { image, namespace, pullSecrets: namespace === controller?.namespace ? controller.pullSecrets : [] };
}

export interface ReachPodPlan {
  readonly name: string;
  readonly namespace: string;
  readonly image: string;
  readonly pullSecrets: NonNullable<PodSpec["imagePullSecrets"]>;
  /** `address:port`, IPv6 without brackets. */
  readonly targets: readonly string[];
  readonly deadlineSeconds: number;
}

/** Plain JavaScript for any Node: writes a line for each target that did not answer. */
const SCRIPT = `const net = require("node:net");
const [file, ...targets] = process.argv.slice(1);
const tries = targets.map((target) => new Promise((resolve) => {
  const at = target.lastIndexOf(":");
  const socket = net.connect({ host: target.slice(0, at), port: Number(target.slice(at + 1)) });
  const end = (why) => { socket.destroy(); clearTimeout(late); resolve(why && target + " " + why); };
  const late = setTimeout(() => end("ETIMEDOUT"), ${CONNECT_MS});
  socket.on("connect", () => end(""));
  socket.on("error", (error) => end(error.code));
}));
Promise.all(tries).then((all) => require("node:fs").writeFileSync(file, all.filter(Boolean).join("\\n")));`;

/** A pod that connects to addresses of a host through the pod network, and exits. */
export function reachPod({ name, namespace, targets, ...plan }: ReachPodPlan): Pod {
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
      command: ["node", "-e", SCRIPT, ANSWER_FILE, ...targets],
      resources: { requests: { cpu: "10m", memory: "32Mi" }, limits: { memory: "128Mi" } },
    }),
  };
}

/** Error code by target, for failed connections only. */
export function parseFailures(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\n").map((line) => /^(\S+:\d+) ([A-Z_]+)$/.exec(line));
  return new Map(lines.flatMap((found) => (found === null ? [] : [[found[1] ?? "", found[2] ?? ""]])));
}

function resultsOf(
  targets: readonly string[],
  end: ProbeEnd | undefined,
  { isServing }: { readonly isServing: boolean },
): readonly CheckResult[] {
  const common = {
    code: CODE,
    check: "route from the cluster",
    reason: "requests reach engines from nodes and pods, not from the host itself",
  } as const;
  if (end?.at !== "answered") {
    const { phase, reason, message = "the command was stopped" } = end ?? {};
    const why = phase === "Failed" ? `${reason}: ${message}` : message;
    return [{ ...common, status: "unknown", finding: `the probe did not run: ${why}` }];
  }
  const failed = parseFailures(end.text);
  return targets.map((target) => {
    const why = failed.get(target);
    if (why === undefined || (why === "ECONNREFUSED" && !isServing))
      return { ...common, status: "ok", finding: `${target} answers` };
    const finding = `a pod cannot connect to ${target}: ${why}`;
    return { ...common, status: "error", finding, fix: defaultRemedy(CODE) };
  });
}
