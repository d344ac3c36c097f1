/** Probes nodes whose labels and report are not enough for a score: a pod reads the node once, and its result becomes the node's report. */

import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { keyOf } from "../../src/api/names.ts";
import { nodeReportName, readNodeReport } from "../../src/api/node-report.ts";
import type { Fitness, NodeRead } from "../../src/capacity/fitness.ts";
import { PODS } from "../../src/kube/kinds.ts";
import { publishReport } from "../../src/kube/node-report.ts";
import { createQueue, type Recheck } from "../../src/kube/queue.ts";
import type { ApiFailure, KubeClient, ObjectRef } from "../../src/kube/types.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { ApiCallFailed } from "../frame/apply/failure.ts";
import type { Watches } from "../frame/watches/watches.ts";
import { runProbe } from "./probe.ts";
import { fitProbePod, probeNodeFailure } from "./workload/one-shot-pod.ts";

export interface NodeProbesOptions {
  readonly client: KubeClient;
  readonly watches: Pick<Watches, "nodes" | "nodeReports">;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Without fitness, no node is probed. */
  readonly fitness: Fitness | undefined;
  /** Undefined if nodes are not probed. */
  readonly probing: Probing | undefined;
}

/** Metalbridge's own image, with the names of Secrets to pull it. */
interface Probing {
  readonly image: string;
  readonly imagePullSecrets: readonly string[];
  /** RuntimeClass of pods on nodes with NVIDIA GPUs. Without it such nodes are not probed. */
  readonly runtimeClassName: string | undefined;
}

type Probes = NodeProbesOptions & { readonly probing: Probing; readonly fitness: Fitness };

export interface NodeProbes {
  /** Probes nodes without a score, except those for which a probe would add nothing. */
  readonly probe: (nodes: readonly string[]) => void;
}

const CONCURRENCY = 8;
const DEADLINE_SECONDS = 60;
/** After this the probe has failed. If its node works, the pod stops earlier, by its deadline. */
const MAX_MS = 2 * DEADLINE_SECONDS * 1_000;
const RECHECK_MS = 1_000;
/** Minimum time between a failed probe of a node and the next. */
const RETRY_MS = 3_600_000;

/** Runs one probe per node, until the node has a report. Kubernetes deletes the pods of deleted nodes. */
export function createNodeProbes(options: NodeProbesOptions): NodeProbes {
  const { clock, log, signal, watches, probing, fitness } = options;
  if (probing === undefined || fitness === undefined) return { probe: () => {} };
  const failedAtMs = new Map<string, number>();
  const queue = createQueue<string>({
    clock,
    log: log.child({ queue: "node probes" }),
    signal,
    concurrency: CONCURRENCY,
    reconcile: async (name) => {
      const outcome = await pass({ ...options, probing, fitness }, name);
      if (typeof outcome === "object") return outcome;
      if (outcome === undefined) return undefined;
      log.warn({ node: name }, `node probe: ${outcome}`);
      failedAtMs.set(name, clock.monotonicMs());
      return undefined;
    },
  });
  return {
    probe: (nodes) => {
      for (const name of nodes) {
        const node = watches.nodes.get(name);
        const failed = failedAtMs.get(name);
        const isEarly = failed !== undefined && clock.monotonicMs() - failed < RETRY_MS;
        if (
          isEarly ||
          node === undefined ||
          !isProbeUseful(fitness, fitness.readNode(node), probing.runtimeClassName)
        )
          continue;
        if (!hasReport(watches, name)) queue.enqueue(name);
      }
    },
  };
}

/** True if a probe could add to the node's labels. NVIDIA's driver has the size of GPUs in no file, so it needs the RuntimeClass. */
export function isProbeUseful(
  { nodeProblem }: Pick<Fitness, "nodeProblem">,
  node: NodeRead,
  runtimeClassName: string | undefined,
): boolean {
  if (nodeProblem(node) === undefined || node.gpus?.isSliced) return false;
  return runtimeClassName !== undefined || !hasNvidia(node);
}

/**
 * Makes a report of a probe's output, unless the node would still lack information, because such a report would prevent the next
 * probe. Free memory is left out, because no pod stays to update it.
 */
export function reportFromProbe(
  { readNode, nodeProblem }: Pick<Fitness, "readNode" | "nodeProblem">,
  node: Node,
  output: string,
): { readonly report: string } | { readonly why: string } {
  const read = readNodeReport(output);
  const problem = nodeProblem(readNode(node, read));
  if (read.at === "unusable" || problem !== undefined) return { why: problem ?? "it cannot be read" };
  const { memory, ...rest } = read.report;
  const lasting = memory === undefined ? {} : { memory: { totalBytes: memory.totalBytes } };
  return { report: JSON.stringify({ ...rest, ...lasting }) };
}

function hasNvidia({ gpus }: NodeRead): boolean {
  return gpus?.accelerator === "cuda";
}

/** Returns the time of the next pass, or a text if the probe failed. */
async function pass(options: Probes, name: string): Promise<Recheck | string | undefined> {
  const { client, watches, fitness, probing } = options;
  const ref = { name: `metalbridge-probe-${name}`.slice(0, 253), namespace: NAMESPACE_SYSTEM };
  if (hasReport(watches, name)) return remove(client, ref);
  const node = watches.nodes.get(name);
  const problem = probeNodeFailure(node);
  if (problem?.reason === "NodeNotReady") return { recheckAfterMs: RECHECK_MS };
  if (node === undefined || problem !== undefined) return `${problem?.reason}: ${problem?.message}`;
  const pod = fitProbePod({
    ...ref,
    node: name,
    image: probing.image,
    pullSecrets: probing.imagePullSecrets.map((secret) => ({ name: secret })),
    deadlineSeconds: DEADLINE_SECONDS,
    runtimeClassName: hasNvidia(fitness.readNode(node)) ? probing.runtimeClassName : undefined,
  });
  const ran = await runProbe(options, pod, { limitMs: MAX_MS });
  // A retry grants no right, and changes no policy.
  if (!ran.ok && ran.error.kind === "forbidden") return ran.error.message;
  if (!ran.ok) throw failed("run", ran.error);
  const end = ran.value;
  // The next leader adopts the pod.
  if (end === undefined) return undefined;
  const failure =
    end.at === "answered" ? await publish(options, node, end.text) : `${end.reason}: ${end.message}`;
  await remove(client, ref);
  return failure;
}

async function remove(client: KubeClient, ref: ObjectRef): Promise<undefined> {
  const removed = await client.remove(PODS, ref);
  if (!removed.ok && removed.error.kind !== "notFound") throw failed("delete", removed.error);
}

/** Publishes the report. Returns a text if the output is unusable. */
async function publish({ client, fitness }: Probes, node: Node, text: string): Promise<string | undefined> {
  const read = reportFromProbe(fitness, node, text);
  if ("why" in read) return read.why;
  const written = await publishReport(
    { client, node: node.metadata.name, namespace: NAMESPACE_SYSTEM },
    read.report,
  );
  if (!written.ok) throw failed("write the report", written.error);
  return undefined;
}

function hasReport({ nodeReports }: NodeProbesOptions["watches"], node: string): boolean {
  return nodeReports.get(keyOf({ namespace: NAMESPACE_SYSTEM, name: nodeReportName(node) })) !== undefined;
}

function failed(action: string, error: ApiFailure): ApiCallFailed {
  return new ApiCallFailed(`${action} of a node probe`, error);
}
