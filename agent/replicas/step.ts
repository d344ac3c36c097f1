/** What a plan asks for: a phase to show, steps to take, and when to plan again. Every step is safe to repeat. */
import type { ErrorCode } from "../../src/api/errors.ts";
import type { ReplicaPhase } from "../../src/api/inference-replica.ts";

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

/** What `because` says of a step is logged and printed by `--dry-run`. */
export interface Because {
  readonly because: string;
}

/** Every phase may find an endpoint that must not be announced. */
export type Withdraw = Because & { readonly do: "withdraw" };

export interface Step extends Because {
  readonly do: string;
}

/** What a step leaves: nothing new yet, facts that need a new plan at once, or a reason not to take the later steps. */
export type StepOutcome = "later" | "changed" | "replan";

export interface ReplicaPlan<S extends Step = Step> {
  readonly phase: ReplicaPhase;
  readonly reason: ReplicaReason;
  readonly message: string;
  readonly steps: readonly S[];
  /** Plan again after this long even if nothing is reported; absent only where nothing is left to do. */
  readonly recheckAfterMs?: number;
  /** When the failed step is retried; set while it is in backoff. */
  readonly nextTryAt?: number;
}
