/** What a plan asks for: a phase to show, steps to take, and when to look again. Every step is safe to repeat. */

import type { ErrorCode } from "../../../src/api/errors.ts";
import type { ReplicaPhase } from "../../../src/api/inference-replica.ts";

/** Reasons that are steps on the way rather than errors. */
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

/** Why a running engine is being ended. The forced ones do not wait for requests: the engine answers none. */
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

export type Step = { readonly because: string } & (
  | { readonly do: "detectRuntime" }
  | { readonly do: "fetch" }
  | { readonly do: "cancelFetch" }
  | { readonly do: "reserve"; readonly claimBytes: number }
  | { readonly do: "start" }
  | { readonly do: "adjustClaim"; readonly claimBytes: number }
  | { readonly do: "probeHealth" }
  | { readonly do: "probeRequest"; readonly timeoutMs: number }
  | { readonly do: "proveAgain"; readonly timeoutMs: number }
  | { readonly do: "measureFootprint" }
  | { readonly do: "setEndpoint"; readonly port: number }
  | { readonly do: "markReady" }
  | { readonly do: "withdraw" }
  | {
      readonly do: "beginStop";
      readonly why: StopReason;
      readonly deadlineAt: number;
      readonly latestAt?: number;
    }
  | { readonly do: "noteWithdrawn"; readonly withdrawnAt: number }
  | { readonly do: "cancelStop" }
  | { readonly do: "pollQuiet" }
  | { readonly do: "stopBy"; readonly deadlineAt: number }
  | { readonly do: "endNow" }
  | { readonly do: "recordExit" }
  | { readonly do: "forgetRun" }
  | { readonly do: "forgetReplica" }
  | { readonly do: "removeFinalizer" }
);

export interface ReplicaPlan {
  readonly phase: ReplicaPhase;
  readonly reason: ReplicaReason;
  readonly message: string;
  readonly steps: readonly Step[];
  /** Look again after this long even if nothing is reported; absent only where nothing is left to do. */
  readonly recheckAfterMs?: number;
  /** When the failed step is retried; set while it is in backoff. */
  readonly nextTryAt?: number;
}

export function isForced(why: StopReason): why is ForcedStop {
  return why === "hung" || why === "neverHealthy" || why === "requestFailed" || why === "degraded";
}
