/** Input and output of the rollout planner. */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";

export interface HostsRolloutInput {
  /** Replicas wanted; 0 for a suspended service. */
  readonly want: number;
  /** Absent when the service cannot be resolved: running replicas stay, and none is created. */
  readonly revision?: string;
  readonly replicas: readonly InferenceReplica[];
  readonly maxSurge: number;
  readonly maxUnavailable: number;
  /** Names of replicas that may be replaced elsewhere: evicted, or refused by their host for too long. */
  readonly displaced: ReadonlySet<string>;
  /** Hosts whose replicas are to leave. */
  readonly draining: ReadonlySet<string>;
  /** Why replicas fail to become Ready, by name. */
  readonly failing: ReadonlyMap<string, string>;
  /** Names of replicas that crashed recently and have not been Ready for long enough. */
  readonly unsettled: ReadonlySet<string>;
  /** The revision that served before this one. */
  readonly fallback?: string;
  /** Revisions whose template is known, so that replicas can be created from them. */
  readonly known: ReadonlySet<string>;
}

/**
 * fill: no replica serves the slot. refill: its old replica was lost and its new one fails, so the old one is recreated.
 * surge: an old revision still serves it. move: its host is being drained. replace: its host cannot run it.
 */
export type WantReason = "fill" | "refill" | "surge" | "move" | "replace";

export interface DesiredSlot {
  readonly ordinal: number;
  readonly revision: string;
  readonly why: WantReason;
}

export interface ReplicaRemoval {
  readonly replica: InferenceReplica;
  readonly because: string;
}

export interface RolloutSlot {
  readonly ordinal: number;
  /** The revision that the slot should have: the new one, or the previous one while the new one fails. */
  readonly target: string;
  /** Live replicas of the target, and of anything else. */
  readonly current: readonly InferenceReplica[];
  readonly old: readonly InferenceReplica[];
  /** Every replica of the target fails: the revision that is kept running beside it. */
  readonly held?: string;
}

/** Progress of the newest revision. */
export interface RolloutState {
  /** Slots with a replica of it, and how many of them serve. */
  readonly updated: number;
  readonly updatedReady: number;
  /** Replicas of other revisions, and how many of them serve. */
  readonly old: number;
  readonly oldReady: number;
  /** Why the rollout is stopped, where it is. */
  readonly stoppedBy?: string;
}

export interface RolloutPlan {
  readonly wanted: readonly DesiredSlot[];
  readonly removals: readonly ReplicaRemoval[];
  /** As they are after these removals, in the order in which they are changed. */
  readonly slots: readonly RolloutSlot[];
  readonly state: RolloutState;
}
