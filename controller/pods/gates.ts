/**
 * The scheduling gate of pods with placement.mode Auto. While a pod is gated, its node affinity may be narrowed and its preferences
 * may change, so each pod gets the choice of its moment without a change of its template.
 */
import {
  ANNOTATION_PLACEMENT_REASON,
  ANNOTATION_PLACEMENT_SCORE,
  GATE_PLACEMENT,
} from "../../src/api/group.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { truncate } from "../../src/util/text.ts";
import type { PodStep } from "../frame/owned/steps.ts";
import type { JudgedNode, NodeChoice } from "./nodes.ts";
import { isLive, isUnscheduled } from "./pods.ts";
import { isQueued } from "./quota.ts";
import type { Term } from "./workload/contract.ts";
import { HOSTNAME_LABEL } from "./workload/mount-affinity.ts";
import { hasSeveralTerms, type NodeAffinity, requiredTermsOf, type Weighted } from "./workload/pod.ts";

/** The choice for the pods that are gated now. */
export interface GateDecision {
  readonly choice: NodeChoice;
  readonly reason: string;
  /** Score of the best node; undefined if none is scored. */
  readonly score: number | undefined;
}

const MAX_REASON = 1_024;

function hasPlacementGate({ spec }: Pod): boolean {
  return spec.schedulingGates?.some(({ name }) => name === GATE_PLACEMENT) === true;
}

/** Without pods that Kueue still holds: its choice narrows ours, and nodes may change until then. */
export function gatedPods(pods: readonly Pod[]): readonly Pod[] {
  return pods.filter((pod) => hasPlacementGate(pod) && isLive(pod) && !isQueued(pod));
}

/** Applies the choice and removes the gate, if the pod is still as it was read. */
export function releaseOf(pod: Pod, { choice, reason, score }: GateDecision): readonly JsonPatchOp[] {
  const { metadata, spec } = pod;
  const annotations = {
    ...metadata.annotations,
    [ANNOTATION_PLACEMENT_REASON]: truncate(reason, MAX_REASON),
    ...(score === undefined ? {} : { [ANNOTATION_PLACEMENT_SCORE]: score.toFixed(2) }),
  };
  const isChosen = choice.avoid.length + choice.prefer.length > 0;
  return [
    { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
    { op: "add", path: "/metadata/annotations", value: annotations },
    ...(isChosen
      ? [{ op: "add", path: "/spec/affinity", value: narrowed(spec.affinity, choice) } as const]
      : []),
    ...ungate(pod),
  ];
}

function ungate({ metadata: { uid }, spec: { schedulingGates = [] } }: Pod): readonly JsonPatchOp[] {
  const index = schedulingGates.findIndex(({ name }) => name === GATE_PLACEMENT);
  const path = `/spec/schedulingGates/${index}`;
  return [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path: `${path}/name`, value: GATE_PLACEMENT },
    { op: "remove", path },
  ];
}

/** Existing terms are ORed and may only get more requirements, so each gets the one for the avoided nodes. Preferences of flavors stay. */
function narrowed(affinity: Pod["spec"]["affinity"], { avoid, prefer }: NodeChoice): object {
  const { nodeAffinity } = (affinity ?? {}) as NodeAffinity;
  const { requiredDuringSchedulingIgnoredDuringExecution: required } = nodeAffinity ?? {};
  const named = (operator: string, values: readonly string[]) => ({ key: HOSTNAME_LABEL, operator, values });
  const given = nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  const preferred = [
    ...given,
    ...weaker(prefer, given).map(({ weight, nodes }) => ({
      weight,
      preference: { matchExpressions: [named("In", nodes)] },
    })),
  ];
  const nodeSelectorTerms = (required?.nodeSelectorTerms ?? [{}]).map((term: Term) => ({
    ...term,
    matchExpressions: [...(term.matchExpressions ?? []), named("NotIn", avoid)],
  }));
  return {
    ...affinity,
    nodeAffinity: {
      ...nodeAffinity,
      ...(avoid.length > 0 && {
        requiredDuringSchedulingIgnoredDuringExecution: { ...required, nodeSelectorTerms },
      }),
      ...(!hasSeveralTerms(affinity) && { preferredDuringSchedulingIgnoredDuringExecution: preferred }),
    },
  };
}

/** Preferences below the given ones, so that their sum with others does not exceed the next given one. */
function weaker<T extends Weighted>(prefer: readonly T[], given: readonly Weighted[]): T[] {
  const most = Math.min(101, ...given.map(({ weight }) => weight)) - 1;
  return prefer
    .map((one) => ({ ...one, weight: Math.floor((one.weight * most) / 100) }))
    .filter(({ weight }) => weight > 0);
}

/**
 * Pods that find no node and are kept off one that would hold them now. A choice cannot be widened, so these pods are replaced.
 * Their template has the gate, or the next pod would be like them.
 */
export function outdatedPods(
  pods: readonly Pod[],
  judged: readonly JudgedNode[],
  { avoid }: NodeChoice,
): readonly Pod[] {
  const open = judged
    .filter(({ hostname, fit }) => fit.at === "fits" && !avoid.includes(hostname))
    .map(({ hostname }) => hostname);
  return pods.filter((pod) => {
    const avoided = avoidedBy(pod);
    return (
      isLive(pod) &&
      isUnscheduled(pod) &&
      pod.metadata.annotations?.[ANNOTATION_PLACEMENT_REASON] !== undefined &&
      open.some((hostname) => avoided.has(hostname))
    );
  });
}

function avoidedBy({ spec }: Pod): ReadonlySet<unknown> {
  const requirements = requiredTermsOf(spec.affinity).flatMap(
    ({ matchExpressions = [] }) => matchExpressions,
  );
  return new Set(
    requirements.flatMap((one) => {
      const { key, operator, values = [] } = one as { key?: string; operator?: string; values?: string[] };
      return key === HOSTNAME_LABEL && operator === "NotIn" ? values : [];
    }),
  );
}

/** Without the choice of nodes if the server rejects it: the pod must start. */
export function releasesOf(gated: readonly Pod[], decision: GateDecision): readonly PodStep[] {
  return gated.map((pod) => ({
    do: "releasePod",
    pod,
    operations: releaseOf(pod, decision),
    fallback: ungate(pod),
    because: decision.reason,
  }));
}

export function replacementsOf(outdated: readonly Pod[]): readonly PodStep[] {
  return outdated.map((pod) => ({ do: "replacePod", pod, because: "a node that it avoids fits now" }));
}
