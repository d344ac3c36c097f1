/** Finds problems of pods whose node no longer reports, or whose node stopped them, from Nodes and Events. */
import type { KubeClient } from "../../src/kube/types.ts";
import type { Node, Pod } from "../../src/kube/workload-objects.ts";
import { truncate } from "../../src/util/text.ts";
import { readEvents } from "../frame/watches/events.ts";
import { createdMs, isLive, isReadyPod, isUnresolvedEnd, type PodProblem } from "./pods.ts";

const MAX_TEXT = 1_000;

/** The problem of pods that are not ready because their node is not. */
export function podNodeProblem(
  pods: readonly Pod[],
  nodeOf: (name: string) => Node | undefined,
): PodProblem | undefined {
  const affected = pods.flatMap((pod) => {
    const { nodeName } = pod.spec;
    if (!isLive(pod) || isReadyPod(pod) || nodeName === undefined) return [];
    const state = notReadyState(nodeOf(nodeName));
    return state === undefined ? [] : [`${pod.metadata.name} is on node ${nodeName}, which ${state}`];
  });
  const [first, ...others] = affected;
  if (first === undefined) return undefined;
  const more = others.length === 0 ? "" : `; also on such nodes: ${others.length} more`;
  return { code: "NodeNotReady", message: truncate(`${first}${more}`, MAX_TEXT) };
}

/** Undefined if the node is ready, or has no status yet. */
function notReadyState(node: Node | undefined): string | undefined {
  if (node === undefined) return "no longer exists";
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready === undefined || ready.status === "True") return undefined;
  const since = ready.lastTransitionTime === undefined ? "" : ` since ${ready.lastTransitionTime}`;
  return `is not ready${since} (${ready.reason ?? ready.status}: ${ready.message ?? ""})`;
}

/** True if the node exists and reports to the API server. */
export function isNodeReady(node: Node | undefined): boolean {
  return node !== undefined && notReadyState(node) === undefined;
}

/**
 * A pod of a Deployment never completes. If it has phase Succeeded, its node stopped it and its engine exited with code 0, and
 * only an Event has the reason. Never rejects.
 */
export async function readPodExitProblem(
  client: KubeClient,
  pods: readonly Pod[],
): Promise<PodProblem | undefined> {
  const ended = pods.filter((pod) => pod.status?.phase === "Succeeded" && isUnresolvedEnd(pod, pods));
  const last = ended.sort((a, b) => createdMs(b) - createdMs(a))[0];
  if (last === undefined) return undefined;
  const { name } = last.metadata;
  const note = (await readEvents(client, last)).find(({ reason }) => reason === "Evicted")?.note;
  const message = note === undefined ? `${name} was stopped by its node` : `${name} was evicted: ${note}`;
  return { code: "PodEvicted", message: truncate(message, MAX_TEXT) };
}
