/** What a plan asks for: a phase to show, steps to take, and when to plan again. Every step is safe to repeat. */

import type { ErrorCode } from "../../../src/api/errors.ts";
import type { ReplicaPhase } from "../../../src/api/inference-replica.ts";
import type { EndStep } from "./ending.ts";
import type { PrepareStep } from "./prepare.ts";
import type { ServeStep } from "./serve.ts";
import type { StopStep } from "./stop.ts";

/** Reasons that report progress rather than an error. */
export type ProgressReason =
  | "AwaitingFirstList"
  | "DetectingRuntime"
  | "ResolvingModel"
  | "DownloadingModel"
  | "AdmittingMemory"
  | "EngineStarting"
  | "LoadingModel"
  | "ProvingRequest"
  | "PublishingEndpoint"
  | "Serving"
  | "WithdrawingEndpoint"
  | "AwaitingPropagation"
  | "AwaitingQuiet"
  | "EndingProcess"
  | "EndingLeftovers"
  | "RemovingFinalizer"
  | "Drained"
  | "Deleted"
  | "NotWanted"
  | "AgentStopped";

export type ReplicaReason = ErrorCode | ProgressReason;

/** Why a running engine is being stopped. Forced stops do not wait for requests: the engine serves none. */
export type GracefulStop =
  | "deleted"
  | "drained"
  | "unwanted"
  | "revision"
  | "moved"
  | "agentStopped"
  | "evicted"
  | "unloaded";
export type ForcedStop = "hung" | "neverHealthy" | "requestFailed" | "degraded";
export type StopReason = GracefulStop | ForcedStop;

/** What `because` says of a step is logged and printed by `--dry-run`. */
export interface Because {
  readonly because: string;
}

/** Every phase may find an endpoint that must not be announced. */
export type Withdraw = Because & { readonly do: "withdraw" };

export type ReplicaStep = Withdraw | PrepareStep | ServeStep | EndStep | StopStep;

export interface ReplicaPlan<S extends ReplicaStep = ReplicaStep> {
  readonly phase: ReplicaPhase;
  readonly reason: ReplicaReason;
  readonly message: string;
  readonly steps: readonly S[];
  /** Plan again after this long even if nothing is reported; absent only where nothing is left to do. */
  readonly recheckAfterMs?: number;
  /** When the failed step is retried; set while it is in backoff. */
  readonly nextTryAt?: number;
}

export function isForced(why: StopReason): why is ForcedStop {
  return why === "hung" || why === "neverHealthy" || why === "requestFailed" || why === "degraded";
}
