/** Pods on nodes that no longer report, and pods that their nodes have stopped without a reason: Nodes and Events say why. */
import { EVENTS } from "../../../src/kube/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import type { Node, Pod } from "../../../src/kube/workload-objects.ts";
import { truncate } from "../../../src/util/text.ts";
import { isLastEnd, isReadyPod, type PodProblem } from "./pods.ts";
import { isLive } from "./rollout.ts";

const MAX_TEXT = 1_000;

/** Trouble of pods that are not ready because their node is not. */
export function podNodeProblem(
  pods: readonly Pod[],
  nodeOf: (name: string) => Node | undefined,
): PodProblem | undefined {
  const away = pods.flatMap((pod) => {
    const { nodeName } = pod.spec;
    if (!isLive(pod) || isReadyPod(pod) || nodeName === undefined) return [];
    const why = whyAway(nodeOf(nodeName));
    return why === undefined ? [] : [`${pod.metadata.name} is on node ${nodeName}, which ${why}`];
  });
  const [first, ...others] = away;
  if (first === undefined) return undefined;
  const more = others.length === 0 ? "" : `; also on such nodes: ${others.length} more`;
  return { code: "NodeNotReady", message: truncate(`${first}${more}`, MAX_TEXT) };
}

/** Undefined if it reports, and where nothing is known of it yet. */
function whyAway(node: Node | undefined): string | undefined {
  if (node === undefined) return "no longer exists";
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready === undefined || ready.status === "True") return undefined;
  const since = ready.lastTransitionTime === undefined ? "" : ` since ${ready.lastTransitionTime}`;
  return `is not ready${since} (${ready.reason ?? ready.status}: ${ready.message ?? ""})`;
}

/** Whether it reports to the API server: what nodeTrouble reads of it. */
export function isNodeReady(node: Node | undefined): boolean {
  return node !== undefined && whyAway(node) === undefined;
}

/**
 * A pod of a Deployment never completes. One that did was stopped by its node, and its engine exited with code 0: then its
 * status lacks the reason. Never rejects.
 */
export async function readPodExitProblem(
  client: KubeClient,
  pods: readonly Pod[],
): Promise<PodProblem | undefined> {
  const ended = pods.filter((pod) => pod.status?.phase === "Succeeded" && isLastEnd(pod, pods));
  const last = ended.sort((a, b) => createdAt(b).localeCompare(createdAt(a)))[0];
  if (last === undefined) return undefined;
  const { name, namespace = "default", uid } = last.metadata;
  const listed = await client.list(EVENTS, { namespace, fieldSelector: `regarding.uid=${uid}` });
  const events = listed.ok ? listed.value.items : [];
  const note = events.find(({ reason }) => reason === "Evicted")?.note;
  const message = note === undefined ? `${name} was stopped by its node` : `${name} was evicted: ${note}`;
  return { code: "PodEvicted", message: truncate(message, MAX_TEXT) };
}

function createdAt({ metadata }: Pod): string {
  return metadata.creationTimestamp ?? "";
}
