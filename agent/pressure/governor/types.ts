/** What goes into the governor and what comes out. Bytes; times in ms of one monotonic clock. */
import type { Priority } from "../../../src/api/fields/shared.ts";

/** One reading of the machine. A field that could not be read is absent; `pressure` is then Unknown. */
export interface PressureReading {
  readonly at: number;
  /** The system's own word: kern.memorystatus_vm_pressure_level on macOS, PSI on Linux. */
  readonly pressure: "Normal" | "Warning" | "Critical" | "Unknown";
  readonly totalBytes?: number | undefined;
  readonly availableBytes?: number | undefined;
  readonly swapUsedBytes?: number | undefined;
}

/** Where an engine stands, as far as memory is concerned. */
export type GovernedEngineState =
  | { readonly at: "running"; readonly idleSince?: number | undefined }
  | { readonly at: "starting" }
  /** It is stopping, for whatever reason; its memory is still in use. */
  | { readonly at: "ending" }
  /** It wants to start and holds nothing. */
  | { readonly at: "waiting" }
  /** The governor evicted it; it may not start until the governor allows it again. */
  | { readonly at: "evicted"; readonly since: number };

export interface GovernedEngine {
  readonly id: string;
  readonly standing: GovernedEngineState;
  readonly priority: Priority;
  readonly isProtected: boolean;
  /** What it takes, or will take. */
  readonly bytes: number;
  /** Breaks ties: lower is older. */
  readonly age: number;
  /** Evictions within the last `forgetMs`, the present one included. */
  readonly evictions: number;
}

export interface GovernorInput {
  readonly now: number;
  /** The newest reading. The same one may be passed again: it counts once. */
  readonly reading: PressureReading;
  readonly engines: readonly GovernedEngine[];
  /** When the system last killed one of the engines; absent when it never did. */
  readonly killedAt?: number | undefined;
  /** `Host.spec.memory.evictionEnabled`. */
  readonly mayEvict: boolean;
}

export type PressureLevel = "Normal" | "Warning" | "Critical";

/** What the governor keeps between readings. Small, and lost without harm when the agent restarts. */
export interface GovernorState {
  readonly level: PressureLevel;
  /** The newest reading that was counted. */
  readonly last?: PressureReading;
  /** Quiet seen so far below the present level, in ms. */
  readonly quietMs: number;
  /** Critical readings in a row since the last engine was gone. */
  readonly criticalInARow: number;
  /** Swap in use, by time, within the window. */
  readonly swap: readonly { readonly at: number; readonly bytes: number }[];
  /** Pressure was seen and some engines are not back yet: they return one at a time. */
  readonly isRecovering: boolean;
  /** Whose turn it is, or was last, to come back. */
  readonly returning?: { readonly id: string; readonly at: number };
}

/** Which engines may start: all, none, or just one. */
export type StartPolicy =
  | { readonly at: "all" }
  | { readonly at: "none"; readonly because: string }
  | { readonly at: "one"; readonly id: string; readonly because: string };

/** Which engine to stop now, in what way, and the reason to report. */
export interface EngineEviction {
  readonly id: string;
  /** "evict" does not wait for long answers; "unload" drains as usual, since the engine is idle. */
  readonly how: "evict" | "unload";
  readonly because: string;
}

export interface GovernorPlan {
  readonly state: GovernorState;
  readonly level: PressureLevel;
  /** Why the level is what it is, as a sentence. */
  readonly because: string;
  readonly starts: StartPolicy;
  readonly eviction?: EngineEviction;
  readonly readAgainMs: number;
}
