/** The planner's input: one value per replica. All times are monotonic milliseconds of this process's clock. */

import type { ErrorCode } from "../../../src/api/errors.ts";
import type { GgufFacts } from "../../../src/api/fields/gguf.ts";
import type { ReplicaMemory } from "../../../src/api/inference-replica.ts";
import type { Generated } from "../../../src/engines/speed.ts";
import type { Activity } from "../../../src/macos/living-process.ts";
import type { InstanceState } from "../../instances/instance.ts";
import type { Correction } from "./corrections.ts";
import type { Quiet } from "./quiet.ts";
import type { Suspicion } from "./suspicion.ts";
import type { Work } from "./work.ts";

/** The replica that the API server requests: `absent` if the object is known to be deleted, `unknown` until it was read. */
export type DesiredState = Desired | "absent" | "unknown";

export interface Desired {
  readonly revision: string;
  readonly runtime: string;
  readonly claimBytes: number;
  /** Parts of the claim; absent if the controller could not estimate it. */
  readonly memory?: ReplicaMemory;
  readonly weightsBytes: number;
  readonly drainSeconds: number;
  readonly isDeleting: boolean;
  readonly hasFinalizer: boolean;
  readonly drain?: { readonly reason: string; readonly deadlineAt?: number };
  readonly probes?: ProbeSettings;
}

/** The service's own probe settings; defaults come from the timings. */
export interface ProbeSettings {
  readonly startMs?: number;
  readonly intervalMs?: number;
  readonly failures?: number;
}

export type RunState =
  | { readonly at: "none" }
  /** The run directory could not be read, so an engine may be running: nothing is started. */
  | { readonly at: "unreadable"; readonly why: string }
  | InstanceState;

/** engine.json: written before the start, so a reservation outlives the agent. */
export interface RunRecord {
  readonly runId: string;
  readonly revision: string;
  readonly port: number;
  readonly claimBytes: number;
  readonly startedAt: number;
  readonly readyAt?: number;
  readonly drainSeconds: number;
  readonly stop?: Stop;
}

/** Why a running engine is being stopped. A forced stop does not wait for requests, because the engine serves none. */
export const GRACEFUL_STOPS = [
  "deleted",
  "drained",
  "unwanted",
  "revision",
  "moved",
  "agentStopped",
  "evicted",
  "unloaded",
] as const;
export const FORCED_STOPS = ["hung", "neverHealthy", "requestFailed", "degraded"] as const;
export type GracefulStop = (typeof GRACEFUL_STOPS)[number];
export type ForcedStop = (typeof FORCED_STOPS)[number];
export type StopReason = GracefulStop | ForcedStop;

export interface Stop {
  readonly why: StopReason;
  readonly startedAt: number;
  /** `startedAt` plus the drain time. Requests in flight get the drain time from the moment the last one can have arrived. */
  readonly deadlineAt: number;
  /** Hard limit of the stop: the drain has a deadline, or memory is needed urgently. */
  readonly latestAt?: number;
  /** When the withdrawal was first seen acknowledged. Persisted, so that a restarted agent continues the count. */
  readonly withdrawnAt?: number;
  /** The evidence for a forced stop. */
  readonly because?: string;
}

export type ModelState =
  | { readonly at: "unknown" }
  | { readonly at: "absent" }
  | {
      readonly at: "fetching";
      readonly bytes: number;
      readonly totalBytes?: number;
      readonly bytesPerSecond?: number;
      /** Number of this host's downloads ahead of this one in the queue; absent once it has started. */
      readonly queuedBehind?: number;
    }
  | {
      readonly at: "stored";
      readonly sizeBytes: number;
      readonly sha256?: string;
      readonly gguf?: GgufFacts;
      /** Identifies the inspected contents, to detect other files of the same name; absent until read. */
      readonly weights?: string;
      /** The files were replaced after the inspection, and the new ones were not inspected yet. */
      readonly isReplaced?: boolean;
      /** The agent's own estimate, from the header on disk and the replica's settings. */
      readonly claim?: OwnClaim;
    }
  | (Failure & {
      /** How a correction is detected; absent if only a retry can show it. */
      readonly correctedBy?: Correction | undefined;
    });

/** A failed fetch or start. */
interface Failure {
  readonly at: "failed";
  readonly code: ErrorCode;
  readonly message: string;
  readonly transient: boolean;
  readonly retryAt: number;
}

export type Need =
  | { readonly at: "known"; readonly bytes: number; readonly memory?: ReplicaMemory }
  /** Nothing is started: a wrong guess could take the machine down. */
  | { readonly at: "unknown"; readonly code: ErrorCode; readonly message: string };

export type OwnClaim =
  | {
      readonly at: "estimated";
      readonly bytes: number;
      readonly memory?: ReplicaMemory;
      /** Basis of the estimate, if that is not the header of the model. */
      readonly basis?: string;
    }
  | Extract<Need, { at: "unknown" }>;

/** The pressure governor's decision about this replica. */
export type PressureState =
  | { readonly at: "none" }
  /** The replica must not start now. */
  | { readonly at: "held"; readonly because: string }
  /** The engine is stopping or stopped until the replica is readmitted. "evict" does not wait for long answers. */
  | { readonly at: "evicted"; readonly how: "evict" | "unload"; readonly because: string };

export type RuntimeState =
  | { readonly at: "unknown" }
  | { readonly at: "present"; readonly version: string; readonly checkedAt: number }
  | { readonly at: "missing"; readonly code: ErrorCode; readonly message: string; readonly checkedAt: number }
  | { readonly at: "unsupported"; readonly message: string };

/** The host's memory as admission sees it; `othersBytes` counts every other replica's reservation, adopted ones included. */
export interface MemoryState {
  /** unread: no reading has finished yet. unknown: one has failed. */
  readonly budgetBytes: number | "unread" | "unknown";
  readonly othersBytes: number;
  /** Memory available now, less what engines that are still loading will take; absent until read. */
  readonly availableBytes?: number;
}

/** The last attempt to start: settings the engine refuses, no free port, no room for its files. */
export type Launch =
  | { readonly at: "untried" }
  | (Failure & {
      /** Version of the engine that was tried, if it was known. */
      readonly runtimeVersion?: string;
    });

/** The replica's EndpointSlice as the API server last acknowledged it. `stale`: ready, but with another port or address. */
export type SliceState = "unknown" | "missing" | "unwritten" | "ready" | "stale" | "withdrawn";

export interface Slice {
  readonly state: SliceState;
  /** True once this run's endpoint may have been announced, even if no answer came. */
  readonly wasExposed: boolean;
  /**
   * An announcement may still reach the API server: it was not answered, or an earlier agent may have sent it. Until
   * then an empty slice does not prove that the endpoint is withdrawn.
   */
  readonly mayArrive: boolean;
  /** When this agent first saw the endpoint withdrawn. */
  readonly withdrawnAt?: number;
  readonly lastError?: string;
}

export interface HealthRecord {
  readonly lastProbeAt?: number;
  readonly healthyAt?: number;
  readonly failuresInARow: number;
  readonly lastMessage?: string;
  /** Activity of the process when the last probe timed out; absent if the probe was answered or refused. */
  readonly silent?: Activity;
  /** When loading last made progress. */
  readonly progressAt?: number;
}

/** When the Secrets of a run were last read, and why they cannot be used. The engine keeps serving with the previous ones. */
export interface ReadSecrets {
  readonly at: number;
  readonly problem?: string;
  /** The clients of a sealed replica that the gate accepts, as in its file. */
  readonly clients?: string | undefined;
}

/** Last known route from the gate to the engine. */
export interface RouteHealth {
  /** Absent until the gate has answered once since the agent started or the machine slept. */
  readonly checkedAt?: number;
  /** Since when clients cannot reach the engine; absent while they can. */
  readonly failingSince?: number;
  readonly problem?: string;
}

export type RequestProof =
  | { readonly at: "none" }
  | { readonly at: "ok" }
  | { readonly at: "failed"; readonly tries: number; readonly lastAt: number; readonly message: string };

/** Memory that the process actually uses, and when that was last read; `bytes` is absent while it cannot be read. */
export interface Footprint {
  readonly lastAt: number;
  readonly bytes?: number;
}

/** An exit of the engine, as the replica's history keeps it. */
export interface HistoryExit {
  readonly code?: number | undefined;
  readonly signal?: string | undefined;
  readonly killedByUs: boolean;
  readonly reason: ErrorCode;
  readonly message: string;
  readonly at: string;
  readonly logTail: string;
}

/** Runtime and weights of a run that ended in a terminal failure. With any others, the start is retried. */
export interface TerminalFailure {
  readonly runtimeVersion: string;
  /** As `weights` of the model; absent if the agent crashed before it recorded them. */
  readonly weights?: string | undefined;
}

export interface Crashes {
  /** Run whose exit is already recorded. */
  readonly recordedRunId?: string;
  readonly restarts: number;
  readonly backoffUntil?: number;
  readonly lastExit?: HistoryExit;
  /** Set while the last exit is a terminal failure: no restart can fix it. */
  readonly terminal?: TerminalFailure;
}

export interface ObservedReplica {
  readonly run: RunState;
  readonly record?: RunRecord;
  readonly model: ModelState;
  readonly memory: MemoryState;
  readonly pressure: PressureState;
  readonly launch: Launch;
  readonly runtime: RuntimeState;
  /** False while no address that this host may serve on is up, and while the engine listens on a different one. */
  readonly hasAddress: boolean;
  /** Set while the engine listens on an address that the host no longer has: ms until it restarts on the new one. */
  readonly movesInMs?: number;
  /** The engine listens on an address that the host no longer has; only a new engine can listen on the new one. */
  readonly isBoundElsewhere: boolean;
  /** The address that the engine listens on is down: no client reaches it, and no answer would arrive. */
  readonly isCutOff: boolean;
  readonly slice: Slice;
  readonly health: HealthRecord;
  /** Absent if clients reach the engine directly. */
  readonly route?: RouteHealth;
  /** Absent if no Secret can change while the engine runs. */
  readonly secrets?: ReadSecrets;
  /** True if the gate does not know the clients of a sealed replica that its spec names now. */
  readonly hasOtherClients?: boolean;
  /** Generation counters: last read, and at the last measurement of speed. Absent if the engine does not report them. */
  readonly generated?: { readonly read: Generated; readonly measured: Generated };
  readonly request: RequestProof;
  /** Progress of the engine's requests. */
  readonly work: Work;
  /** Since when the engine has had no work; absent while it has, or before the first reading. */
  readonly idleSince?: number | undefined;
  readonly suspicion: Suspicion;
  readonly quiet: Quiet;
  /** Absent until this agent has measured this run once. */
  readonly footprint?: Footprint;
  readonly crashes: Crashes;
  /** True once this process has listed the replicas successfully. */
  readonly wasListed: boolean;
  /** Set when the agent must stop its engines because it exits. immediate: a second request came, so no client is waited for. */
  readonly agentStop?: "graceful" | "immediate";
}
