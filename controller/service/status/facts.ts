/** What the status of a service is made from. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Unplaced } from "../../../src/placement/types.ts";
import { isPreempted, type PreemptedSlot } from "../../placement/preempted.ts";
import type { Rejection } from "../apply/rejection.ts";
import type { ServiceDraft } from "../plan/plan.ts";
import { isLeaving, isReady, ordinalOf } from "../rollout/slots.ts";

/** Why the outside world keeps a service from being served. */
export type Obstacle =
  | { readonly at: "none" }
  | { readonly at: "nameTaken"; readonly message: string }
  | { readonly at: "terminating" };

export interface StatusInput {
  readonly draft: ServiceDraft;
  readonly unplaced: readonly Unplaced[];
  /** Replicas that this pass has made and the cache may not show yet. */
  readonly created: readonly InferenceReplica[];
  readonly obstacle: Obstacle;
  /** What the API server does not take of the service's objects. */
  readonly rejections?: readonly Rejection[];
  /** Slots that made way for a higher priority, as far as is known. */
  readonly preempted?: ReadonlyMap<number, PreemptedSlot>;
}

export interface StatusFacts extends StatusInput {
  readonly want: number;
  readonly live: readonly InferenceReplica[];
  readonly ready: readonly InferenceReplica[];
  readonly updated: readonly InferenceReplica[];
  /** Slots that nothing serves and that found no host; those of `ending` wait for nobody else. */
  readonly waiting: readonly Unplaced[];
  /** Replicas that end so that a slot without a host gets their room. */
  readonly ending: readonly InferenceReplica[];
  /** The replica that says best why not all is well. */
  readonly worst?: InferenceReplica | undefined;
}

/** Phases from worst to best: the first that a replica has is the one worth telling. */
const BY_TROUBLE = ["Failed", "Backoff", "Evicted", "Waiting"];

export function statusFacts(input: StatusInput): StatusFacts {
  const { draft, created, unplaced } = input;
  const known = new Set(draft.observed.replicas.map(({ metadata }) => metadata.name));
  const fresh = created.filter(({ metadata }) => !known.has(metadata.name));
  const live = [...draft.observed.replicas.filter((replica) => !isLeaving(replica)), ...fresh].sort(byName);
  const empty = new Set(
    draft.rollout.wanted.filter(({ why }) => why === "fill").map(({ ordinal }) => ordinal),
  );
  const homeless = new Set(unplaced.map(({ ordinal }) => ordinal).filter((ordinal) => empty.has(ordinal)));
  const ending = draft.observed.replicas.filter((one) => isLeaving(one) && homeless.has(ordinalOf(one)));
  const endingSlots = new Set(ending.map(ordinalOf));
  const unready = live.filter((replica) => !isReady(replica));
  const worst = BY_TROUBLE.map((phase) => unready.find(({ status }) => status?.phase === phase)).find(
    (replica) => replica !== undefined,
  );
  return {
    ...input,
    want: draft.input.want,
    live,
    ready: live.filter(isReady),
    updated: live.filter(({ spec }) => spec.template.revision === draft.input.revision),
    waiting: unplaced.filter(({ ordinal }) => homeless.has(ordinal) && !endingSlots.has(ordinal)),
    ending,
    worst: worst ?? unready[0],
  };
}

/** Distinct slots that answer: two replicas of one slot count once. */
export function readyCount({ want, ready }: StatusFacts): number {
  return slotsOf(ready, want);
}

/** Wanted slots that have one of these. */
export function slotsOf(replicas: readonly InferenceReplica[], want: number): number {
  return new Set(replicas.map(ordinalOf).filter((ordinal) => ordinal < want)).size;
}

/** A slot has made way until something else is in it: also while what was there drains, or its room is still counted. */
export function preemptedNow({ preempted, live, want }: StatusFacts): PreemptedSlot[] {
  const taken = new Set(live.filter((replica) => !isPreempted(replica)).map(ordinalOf));
  return [...(preempted?.values() ?? [])].filter(({ slot }) => slot < want && !taken.has(slot));
}

function byName(a: InferenceReplica, b: InferenceReplica): number {
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
