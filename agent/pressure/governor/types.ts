/** Input and output of the governor. Sizes in bytes; times in ms of one monotonic clock. */
import type { Priority } from "../../../src/api/fields/shared.ts";

/** One reading of the machine. A field that could not be read is absent; `pressure` is then Unknown. */
export interface PressureReading {
  readonly at: number;
  /** The level that the system reports: kern.memorystatus_vm_pressure_level on macOS, PSI on Linux. */
  readonly pressure: "Normal" | "Warning" | "Critical" | "Unknown";
  readonly totalBytes?: number | undefined;
  readonly availableBytes?: number | undefined;
  readonly swapUsedBytes?: number | undefined;
}

/** State of an engine with respect to memory. */
export type GovernedEngineState =
  | { readonly at: "running"; readonly idleSince?: number | undefined }
  | { readonly at: "starting" }
  /** Stopping for any reason; its memory is still in use. */
  | { readonly at: "ending" }
  /** Waiting to start, without memory. */
  | { readonly at: "waiting" }
  /** Evicted by the governor; must not start until the governor readmits it. */
  | { readonly at: "evicted"; readonly since: number };

export interface GovernedEngine {
  readonly id: string;
  readonly standing: GovernedEngineState;
  readonly priority: Priority;
  readonly isProtected: boolean;
  /** Memory that the engine uses or will use. */
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
  /** When the system last killed one of the engines; absent if it never did. */
  readonly killedAt?: number | undefined;
  /** `Host.spec.memory.evictionEnabled`. */
  readonly mayEvict: boolean;
}

export type PressureLevel = "Normal" | "Warning" | "Critical";

/** State of the governor between readings. It may be lost when the agent restarts. */
export interface GovernorState {
  readonly level: PressureLevel;
  /** The newest reading that was counted. */
  readonly last?: PressureReading;
  /** Quiet time below the current level so far, in ms. */
  readonly quietMs: number;
  /** Consecutive critical readings since the last engine stopped. */
  readonly criticalInARow: number;
  /** Swap in use over time, within the window. */
  readonly swap: readonly { readonly at: number; readonly bytes: number }[];
  /** There was pressure and some engines have not returned yet: they return one at a time. */
  readonly isRecovering: boolean;
  /** The engine whose turn it is, or was last, to return. */
  readonly returning?: { readonly id: string; readonly at: number };
}

/** Which engines may start: all, none, or just one. */
export type StartPolicy =
  | { readonly at: "all" }
  | { readonly at: "none"; readonly because: string }
  | { readonly at: "one"; readonly id: string; readonly because: string };

/** The engine to stop now, and the reason to report. */
export interface EngineEviction {
  readonly id: string;
  /** "evict" does not wait for long answers; "unload" drains as usual, since the engine is idle. */
  readonly how: "evict" | "unload";
  readonly because: string;
}

export interface GovernorPlan {
  readonly state: GovernorState;
  readonly level: PressureLevel;
  /** Reason for the level. */
  readonly because: string;
  readonly starts: StartPolicy;
  readonly eviction?: EngineEviction;
  readonly readAgainMs: number;
}
