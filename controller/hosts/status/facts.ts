/** Collects the facts for the status of a service on hosts. Pure. */

import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Unplaced } from "../../../src/capacity/placement/types.ts";
import type { Rejection } from "../../frame/apply/rejection.ts";
import type { Obstacle } from "../../frame/apply/run.ts";
import { isPreempted, type PreemptedSlot } from "../../frame/scheduler/preempted.ts";
import type { ServiceDraft } from "../plan/plan.ts";
import { isServingReplica, ordinalOf } from "../rollout/slots.ts";

export interface HostsStatusInput {
  readonly draft: ServiceDraft;
  readonly unplaced: readonly Unplaced[];
  /** Replicas that this pass has created and the cache may not show yet. */
  readonly created: readonly InferenceReplica[];
  readonly obstacle: Obstacle;
  /** Objects of the service that the API server rejects. */
  readonly rejections?: readonly Rejection[];
  /** Slots that are known to have been preempted. */
  readonly preempted?: ReadonlyMap<number, PreemptedSlot>;
}

export interface HostsStatusFacts extends HostsStatusInput {
  readonly desired: number;
  readonly live: readonly InferenceReplica[];
  readonly ready: readonly InferenceReplica[];
  readonly updated: readonly InferenceReplica[];
  /** Slots without a replica and without a host, except those that only wait for a replica in `ending`. */
  readonly waiting: readonly Unplaced[];
  /** Replicas that are being stopped to free memory for a slot without a host. */
  readonly ending: readonly InferenceReplica[];
  /** The replica that best explains why the service is not healthy. */
  readonly worst?: InferenceReplica;
}

/** Phases from worst to best: the worst of any replica is reported. */
const WORST_FIRST = ["Failed", "Backoff", "Evicted", "Waiting"];

export function statusFacts(input: HostsStatusInput): HostsStatusFacts {
  const { draft, created, unplaced } = input;
  const known = new Set(draft.observed.replicas.map(({ metadata }) => metadata.name));
  const fresh = created.filter(({ metadata }) => !known.has(metadata.name));
  const live = [...draft.observed.replicas.filter((replica) => !isBeingDeleted(replica)), ...fresh].sort(
    byName,
  );
  const empty = new Set(
    draft.rollout.desiredSlots.filter(({ why }) => why === "fill").map(({ ordinal }) => ordinal),
  );
  const withoutHost = new Set(unplaced.map(({ ordinal }) => ordinal).filter((ordinal) => empty.has(ordinal)));
  const ending = draft.observed.replicas.filter(
    (one) => isBeingDeleted(one) && withoutHost.has(ordinalOf(one)),
  );
  const endingSlots = new Set(ending.map(ordinalOf));
  const unready = live.filter((replica) => !isServingReplica(replica));
  const worst = WORST_FIRST.map((phase) => unready.find(({ status }) => status?.phase === phase)).find(
    (replica) => replica !== undefined,
  );
  return {
    ...input,
    desired: draft.input.desired,
    live,
    ready: live.filter(isServingReplica),
    updated: live.filter(({ spec }) => spec.template.revision === draft.input.revision),
    waiting: unplaced.filter(({ ordinal }) => withoutHost.has(ordinal) && !endingSlots.has(ordinal)),
    ending,
    worst: worst ?? unready[0],
  };
}

/** Number of serving slots. Two Ready replicas of one slot count once. */
export function readyCount({ desired, ready }: HostsStatusFacts): number {
  return filledSlotCount(ready, desired);
}

/** Number of desired slots that have one of these replicas. */
export function filledSlotCount(replicas: readonly InferenceReplica[], desired: number): number {
  return new Set(replicas.map(ordinalOf).filter((ordinal) => ordinal < desired)).size;
}

/** Slots that were preempted and that no other replica fills yet, even while the preempted replica drains. */
export function currentlyPreempted({ preempted, live, desired }: HostsStatusFacts): PreemptedSlot[] {
  const taken = new Set(live.filter((replica) => !isPreempted(replica)).map(ordinalOf));
  return [...(preempted?.values() ?? [])].filter(({ slot }) => slot < desired && !taken.has(slot));
}

function byName(a: InferenceReplica, b: InferenceReplica): number {
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
