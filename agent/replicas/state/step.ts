/** A plan: a phase to publish, steps to take, and when to plan again. Every step is safe to repeat. */
import type { ErrorCode } from "../../../src/api/errors.ts";
import type { ReplicaPhase } from "../../../src/api/inference-replica.ts";

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

/** `because` is logged with the step and printed by `--dry-run`. */
export interface Because {
  readonly because: string;
}

/** A step of every phase: each may find an endpoint that must not be announced. */
export type Withdraw = Because & { readonly do: "withdraw" };

export interface Step extends Because {
  readonly do: string;
}

/** later: nothing has changed yet. changed: plan again after the remaining steps. replan: skip the remaining steps. */
export type StepOutcome = "later" | "changed" | "replan";

export interface ReplicaPlan<S extends Step = Step> {
  readonly phase: ReplicaPhase;
  readonly reason: ReplicaReason;
  readonly message: string;
  readonly steps: readonly S[];
  /** Plan again after this long even if nothing is reported; absent only if nothing is left to do. */
  readonly recheckAfterMs?: number;
  /** When the failed step is retried; set while it is in backoff. */
  readonly nextTryAt?: number;
}
