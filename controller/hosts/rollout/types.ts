/** Input and output of the rollout planner. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { ReplicaRemoval } from "../../frame/apply/run.ts";

export interface HostsRolloutInput {
  /** Desired number of replicas; 0 for a suspended service. */
  readonly desired: number;
  /** Absent if the service cannot be resolved. Running replicas then stay, and none is created. */
  readonly revision?: string;
  readonly replicas: readonly InferenceReplica[];
  readonly maxSurge: number;
  readonly maxUnavailable: number;
  /** Names of replicas to replace on another host: evicted, or refused by their host for too long. */
  readonly displaced: ReadonlySet<string>;
  /** Hosts that replicas must leave. */
  readonly draining: ReadonlySet<string>;
  /** Names of replicas that fail to become Ready, with the reason. */
  readonly failing: ReadonlyMap<string, string>;
  /** Names of replicas that crashed recently and have not been Ready for long enough. */
  readonly unsettled: ReadonlySet<string>;
  /** The last revision that served. */
  readonly fallback?: string;
  /** Revisions whose template is known, so that replicas can be created from them. */
  readonly known: ReadonlySet<string>;
}

/**
 * Reason why a slot needs a replica. fill: no replica serves the slot. refill: the old replica was lost and the new one fails, so
 * the old one is recreated. surge: an old revision still serves the slot. move: the host is being drained. replace: the host
 * cannot run the replica.
 */
export type SlotReason = "fill" | "refill" | "surge" | "move" | "replace";

export interface DesiredSlot {
  readonly ordinal: number;
  readonly revision: string;
  readonly why: SlotReason;
}

export interface RolloutSlot {
  readonly ordinal: number;
  /** The revision that the slot should have: the new one, or the previous one while the new one fails. */
  readonly target: string;
  /** Live replicas of the target, and of other revisions. */
  readonly current: readonly InferenceReplica[];
  readonly old: readonly InferenceReplica[];
  /** The old revision that keeps running because every replica of the target fails. */
  readonly retained?: string;
}

/** Progress of the newest revision. */
export interface RolloutState {
  /** Slots with a replica of the newest revision, and how many of them serve. */
  readonly updated: number;
  readonly updatedReady: number;
  /** Replicas of other revisions, and how many of them serve. */
  readonly old: number;
  readonly oldReady: number;
  /** The reason why the rollout is stopped; absent otherwise. */
  readonly stoppedBy?: string;
}

export interface RolloutPlan {
  readonly desiredSlots: readonly DesiredSlot[];
  readonly removals: readonly ReplicaRemoval[];
  /** Slots after these removals, in the order in which they are changed. */
  readonly slots: readonly RolloutSlot[];
  readonly state: RolloutState;
}
