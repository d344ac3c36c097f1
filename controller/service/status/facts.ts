/** What the status of a service is made from. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Placed, Unplaced } from "../../../src/placement/types.ts";
import type { ServiceDraft } from "../plan/plan.ts";
import { isLeaving, isReady } from "../plan/slots.ts";

/** Why the outside world keeps a service from being served. */
export type Obstacle =
  | { readonly at: "none" }
  | { readonly at: "nameTaken"; readonly message: string }
  | { readonly at: "terminating" };

export interface StatusInput {
  readonly draft: ServiceDraft;
  readonly placed: readonly Placed[];
  readonly unplaced: readonly Unplaced[];
  /** Replicas that this pass has made and the cache may not show yet. */
  readonly created: readonly InferenceReplica[];
  readonly obstacle: Obstacle;
}

export interface StatusFacts extends StatusInput {
  readonly want: number;
  readonly live: readonly InferenceReplica[];
  readonly ready: readonly InferenceReplica[];
  readonly updated: readonly InferenceReplica[];
  /** Slots without any replica that found no host. */
  readonly waiting: readonly Unplaced[];
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
    draft.slotsPlan.wanted.filter(({ why }) => why === "fill").map(({ ordinal }) => ordinal),
  );
  const unready = live.filter((replica) => !isReady(replica));
  const worst = BY_TROUBLE.map((phase) => unready.find(({ status }) => status?.phase === phase)).find(
    (replica) => replica !== undefined,
  );
  return {
    ...input,
    want: draft.slots.want,
    live,
    ready: live.filter(isReady),
    updated: live.filter(({ spec }) => spec.template.revision === draft.slots.revision),
    waiting: unplaced.filter(({ ordinal }) => empty.has(ordinal)),
    worst: worst ?? unready[0],
  };
}

/** Distinct slots that answer: two replicas of one slot count once. */
export function readyCount({ want, ready }: StatusFacts): number {
  return Math.min(want, ready.length);
}

function byName(a: InferenceReplica, b: InferenceReplica): number {
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
