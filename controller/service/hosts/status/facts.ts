/** Input of the status of a service. */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { Unplaced } from "../../../../src/capacity/placement/types.ts";
import { isPreempted, type PreemptedSlot } from "../../../scheduler/preempted.ts";
import type { Rejection } from "../../apply/rejection.ts";
import type { Obstacle } from "../../apply/run.ts";
import type { ServiceDraft } from "../plan/plan.ts";
import { isBeingDeleted, isServingReplica, ordinalOf } from "../rollout/slots.ts";

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
  readonly want: number;
  readonly live: readonly InferenceReplica[];
  readonly ready: readonly InferenceReplica[];
  readonly updated: readonly InferenceReplica[];
  /**
   * Slots without a serving replica and without a host; those of `ending` wait only for their own service.
   */
  readonly waiting: readonly Unplaced[];
  /** Replicas that are being stopped so that a slot without a host gets their memory. */
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
    draft.rollout.wanted.filter(({ why }) => why === "fill").map(({ ordinal }) => ordinal),
  );
  const homeless = new Set(unplaced.map(({ ordinal }) => ordinal).filter((ordinal) => empty.has(ordinal)));
  const ending = draft.observed.replicas.filter((one) => isBeingDeleted(one) && homeless.has(ordinalOf(one)));
  const endingSlots = new Set(ending.map(ordinalOf));
  const unready = live.filter((replica) => !isServingReplica(replica));
  const worst = WORST_FIRST.map((phase) => unready.find(({ status }) => status?.phase === phase)).find(
    (replica) => replica !== undefined,
  );
  return {
    ...input,
    want: draft.input.want,
    live,
    ready: live.filter(isServingReplica),
    updated: live.filter(({ spec }) => spec.template.revision === draft.input.revision),
    waiting: unplaced.filter(({ ordinal }) => homeless.has(ordinal) && !endingSlots.has(ordinal)),
    ending,
    worst: worst ?? unready[0],
  };
}

/** Serving slots: two Ready replicas of one slot count once. */
export function readyCount({ want, ready }: HostsStatusFacts): number {
  return filledSlotCount(ready, want);
}

/** Wanted slots that have one of these. */
export function filledSlotCount(replicas: readonly InferenceReplica[], want: number): number {
  return new Set(replicas.map(ordinalOf).filter((ordinal) => ordinal < want)).size;
}

/**
 * A slot counts as preempted until another replica fills it: also while the old one drains or its memory
 * still counts.
 */
export function currentlyPreempted({ preempted, live, want }: HostsStatusFacts): PreemptedSlot[] {
  const taken = new Set(live.filter((replica) => !isPreempted(replica)).map(ordinalOf));
  return [...(preempted?.values() ?? [])].filter(({ slot }) => slot < want && !taken.has(slot));
}

function byName(a: InferenceReplica, b: InferenceReplica): number {
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
