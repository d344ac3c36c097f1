/** The planner's input: one value per replica. All times are monotonic milliseconds of this process. */

import type { ErrorCode } from "../../src/api/errors.ts";
import type { GgufFacts } from "../../src/api/fields/gguf.ts";
import type { Generated } from "../../src/engines/speed.ts";
import type { Quiet } from "./evidence/quiet.ts";
import type { Suspicion } from "./evidence/suspicion.ts";
import type { Work } from "./evidence/work.ts";
import type { Correction } from "./prepare/corrections.ts";

/** Both clocks read at one moment, to place a timestamp of the API on the monotonic clock. */
export interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * What the API server wants of this replica: `absent` if the object is known to be gone, `unknown` until it
 * was read.
 */
export type DesiredState = Desired | "absent" | "unknown";

export interface Desired {
  readonly revision: string;
  readonly runtime: string;
  readonly claimBytes: number;
  readonly weightsBytes: number;
  readonly drainSeconds: number;
  readonly isDeleting: boolean;
  readonly hasFinalizer: boolean;
  readonly drain?: { readonly reason: string; readonly deadlineAt?: number };
  readonly probes?: ProbeSettings;
}

/** The service's own probe settings; what is absent comes from the timings. */
export interface ProbeSettings {
  readonly startMs?: number;
  readonly intervalMs?: number;
  readonly failures?: number;
}

export type Exit = { readonly code?: number; readonly signal?: string } | "unknown";

/** What was asked of the running instance: to stop by a deadline, or to end at once. */
export type Ending = "stopping" | "killing";

export type RunState =
  | { readonly at: "none" }
  /** The run directory could not be read, so an engine may be running: nothing is started. */
  | { readonly at: "unreadable"; readonly why: string }
  /** isLoading: the shared daemon runs, and brings the model into memory. */
  | { readonly at: "starting"; readonly isLoading?: true; readonly ending?: Ending }
  | { readonly at: "running"; readonly pid?: number; readonly ending?: Ending }
  /** The engine has exited, but a process that it started has not. */
  | { readonly at: "ended"; readonly exit: Exit; readonly ending?: Ending }
  | { readonly at: "gone"; readonly exit: Exit };

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

export interface Stop {
  readonly why: StopReason;
  readonly startedAt: number;
  /**
   * The drain time after `startedAt`; requests in flight get that time from when the last of them can have
   * arrived.
   */
  readonly deadlineAt: number;
  /** The stop never takes longer than this: the deadline was given, or memory is needed urgently. */
  readonly latestAt?: number;
  /**
   * When its withdrawal was first seen acknowledged. Persisted, so that a restarted agent continues the
   * count.
   */
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
      /** While it is queued: how many downloads of this host go first. */
      readonly queuedBehind?: number;
    }
  | {
      readonly at: "stored";
      readonly sizeBytes: number;
      readonly sha256?: string;
      readonly gguf?: GgufFacts;
      /**
       * Identifies the inspected contents, so that other files of the same name are noticed; absent until
       * known.
       */
      readonly weights?: string;
      /** Other files have replaced them since and were not inspected yet. */
      readonly isReplaced?: boolean;
      /** The agent's own estimate, from the header on disk and the replica's settings. */
      readonly claim?: OwnClaim;
    }
  | {
      readonly at: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      readonly transient: boolean;
      readonly retryAt: number;
      /** Absent where only the step itself can show it. */
      readonly correctedBy?: Correction | undefined;
    };

export type Need =
  | { readonly at: "known"; readonly bytes: number }
  /** Unknown: nothing is started, because a wrong guess could take the machine down. */
  | { readonly at: "unknown"; readonly code: ErrorCode; readonly message: string };

export type OwnClaim =
  | {
      readonly at: "estimated";
      readonly bytes: number;
      /** What it is based on, where that is not the header of the model. */
      readonly basis?: string;
    }
  | Extract<Need, { at: "unknown" }>;

/** What the host's pressure governor says of this replica. */
export type PressureState =
  | { readonly at: "none" }
  /** It may not start now. */
  | { readonly at: "held"; readonly because: string }
  /** It is stopping or stopped until it is readmitted. "evict" does not wait for long answers. */
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
  | {
      readonly at: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      readonly transient: boolean;
      readonly retryAt: number;
      /** Of the engine that was tried; absent where it was not known. */
      readonly runtimeVersion?: string;
    };

/** The replica's EndpointSlice as the API server last acknowledged it. `stale`: ready, but with another port or address. */
export type SliceState = "unknown" | "missing" | "unwritten" | "ready" | "stale" | "withdrawn";

export interface Slice {
  readonly state: SliceState;
  /** True once this run's endpoint may have been announced, even if no answer came. */
  readonly wasExposed: boolean;
  /** An announcement may be on its way: it was not answered, or an earlier agent may have sent it. Until then an empty slice does not prove its withdrawal. */
  readonly mayArrive: boolean;
  /** Since when this agent has seen it withdrawn. */
  readonly withdrawnAt?: number;
  readonly lastError?: string;
}

/** What the engine's process was doing: stopped by a signal, no thread at work, or computing or waiting for the disk. */
export type Activity = "stopped" | "asleep" | "busy" | "unknown";

export interface HealthRecord {
  readonly lastProbeAt?: number;
  readonly healthyAt?: number;
  readonly failuresInARow: number;
  readonly lastMessage?: string;
  /** What its process was doing when the last probe timed out; absent where it was answered or refused. */
  readonly silent?: Activity;
  /** When loading last made progress. */
  readonly progressAt?: number;
}

/** When the Secrets of a run were last read, and why they cannot be used: it serves with what it has of them. */
export interface ReadSecrets {
  readonly at: number;
  readonly problem?: string;
}

/** Of an engine behind the gate, as last asked. */
export interface RouteHealth {
  /** Absent before the first answer since the start of the agent or a sleep. */
  readonly askedAt?: number;
  /** Since when clients cannot reach it; absent while they can. */
  readonly failingSince?: number;
  readonly why?: string;
}

export type RequestProof =
  | { readonly at: "none" }
  | { readonly at: "ok" }
  | { readonly at: "failed"; readonly tries: number; readonly lastAt: number; readonly message: string };

/** What the process actually uses, and when that was last read; the figure is absent while it cannot be read. */
export interface Footprint {
  readonly lastAt: number;
  readonly bytes?: number;
}

export interface ObservedExit {
  readonly code?: number;
  readonly signal?: string;
  readonly killedByUs: boolean;
  readonly reason: ErrorCode;
  readonly message: string;
  readonly at: string;
  readonly logTail: string;
}

export interface Crashes {
  /** The run whose exit is already recorded. */
  readonly recordedRunId?: string;
  readonly restarts: number;
  readonly inARow: number;
  readonly backoffUntil?: number;
  readonly lastExit?: ObservedExit;
  /** Set while the last exit is a terminal failure: no restart can cure it. */
  readonly terminal?: TerminalFailure;
}

/** The runtime and weights of a terminal failure. With any others, the start is retried. */
export interface TerminalFailure {
  readonly runtimeVersion: string;
  /**
   * As `weights` of the model; absent if not recorded: by an earlier version of the agent, or by one that
   * crashed meanwhile.
   */
  readonly weights?: string;
}

export interface ObservedReplica {
  readonly run: RunState;
  readonly record?: RunRecord;
  readonly model: ModelState;
  readonly memory: MemoryState;
  readonly pressure: PressureState;
  readonly launch: Launch;
  readonly runtime: RuntimeState;
  /** False while no address this host may serve on is up, and while its engine listens on another one. */
  readonly hasAddress: boolean;
  /** Set while the engine listens on an address that is no longer the host's: ms until it restarts on the new one. */
  readonly movesInMs?: number;
  /** The engine listens on another address than this host's; only a new one can listen on the new address. */
  readonly isBoundElsewhere: boolean;
  /** The address that it listens on is down: no client reaches it, and no answer would arrive. */
  readonly isCutOff: boolean;
  readonly slice: Slice;
  readonly health: HealthRecord;
  /** Absent where clients reach the engine directly. */
  readonly route?: RouteHealth;
  /** Absent where none of them can change while it runs. */
  readonly secrets?: ReadSecrets;
  /** What it has generated, as last read and when its speed was last measured; absent where it does not report that. */
  readonly generated?: { readonly read: Generated; readonly measured: Generated };
  readonly request: RequestProof;
  /** Whether it makes progress with its requests. */
  readonly work: Work;
  /** Since when it has had no work; absent while it has, or none was read. */
  readonly idleSince?: number | undefined;
  readonly suspicion: Suspicion;
  readonly quiet: Quiet;
  /** Absent until this agent has read it once for this run. */
  readonly footprint?: Footprint;
  readonly crashes: Crashes;
  /** True after the first successful list of this process. */
  readonly wasListed: boolean;
  /** The agent was asked to stop its engines when it exits; on a second request it waits for no client. */
  readonly agentEnds?: "in order" | "at once";
}
