/** The port every engine is driven through: found, prepared, probed. One folder and one registry line per engine. */
import type { Mode, Runtime } from "../../src/api/engine-settings.ts";
import type { ReplicaTemplate } from "../../src/api/inference-replica.ts";
import type { EngineGauges } from "../../src/engines/engine-gauges.ts";
import type { RunAtEnd } from "../../src/engines/run-at-end.ts";
import type { Generated } from "../../src/engines/speed.ts";
import type { ErrorCode } from "../../src/errors.ts";
import type { DrainReading } from "../../src/replica/evidence/quiet.ts";
import type { ExitRecord } from "../process/engine-process.ts";

export interface DetectedRuntime {
  readonly name: string;
  readonly version: string;
  readonly path: string;
}

/** The device memory an engine sees, where it can tell. */
export interface EngineDevice {
  readonly name: string;
  readonly description: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

/** One start: the replica's settings and what the host decided. */
export interface EngineLaunch {
  readonly template: ReplicaTemplate;
  readonly modelPath: string;
  readonly mmprojPath?: string;
  readonly draftPath?: string;
  /** File with one API key per line, mode 0600. */
  readonly apiKeyFile?: string;
  readonly address: string;
  readonly port: number;
  readonly dir: string;
}

export interface PreparedEngine {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Where a running engine answers: always loopback, so that a lost network is not a hung engine. */
export interface EngineTarget {
  readonly host: string;
  readonly port: number;
  readonly mode: Mode;
  readonly apiKey?: string;
  readonly modelAlias?: string;
}

export type Health = "healthy" | "loading" | { readonly unhealthy: string };
/** `failed` begins with "HTTP" and the status where the engine answered. */
export type RequestResult = "ok" | { readonly failed: string };
export type ExitReason = { readonly code: ErrorCode; readonly message: string };

export interface EngineDriver {
  readonly runtime: Runtime;
  /** Undefined where the engine is not installed; throws MetalbridgeError where it is installed and unusable. */
  readonly detect: () => Promise<DetectedRuntime | undefined>;
  /** Throws MetalbridgeError when the settings cannot be honoured by the installed engine. */
  readonly prepare: (launch: EngineLaunch) => Promise<PreparedEngine>;
  readonly probeHealth: (target: EngineTarget, options?: { readonly timeoutMs?: number }) => Promise<Health>;
  /** One real one-token request in the service's mode. */
  readonly probeRequest: (
    target: EngineTarget,
    options?: { readonly timeoutMs?: number; readonly signal?: AbortSignal },
  ) => Promise<RequestResult>;
  /** Requests being worked on or queued, and counters that tell of those in between; a failed reading is "unknown", which means busy. */
  readonly readWork: (target: EngineTarget) => Promise<DrainReading | "unknown">;
  /** Health and progress of an engine that serves, with one request where that is enough. Wakes no sleeping engine. */
  readonly probeLive: (
    target: EngineTarget,
    options?: { readonly timeoutMs?: number },
  ) => Promise<LiveAnswer>;
  /** Progress alone, however long the engine takes to answer; "unknown" where it does not, or does not tell. */
  readonly readProgress: (
    target: EngineTarget,
    options: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ) => Promise<EngineProgress | "unknown">;
  /** What the engine tells of its work, for metrics; one short request. Absent where it tells nothing. */
  readonly gauges?: (
    target: EngineTarget,
    options: { readonly timeoutMs: number },
  ) => Promise<EngineGauges | "unknown">;
  readonly facts: (target: EngineTarget) => Promise<{ readonly contextPerSlot?: number }>;
  readonly devices: () => Promise<readonly EngineDevice[] | "unknown">;
  readonly classifyExit: (exit: ExitRecord | "unknown", logTail: string, run?: RunAtEnd) => ExitReason;
  /** The first line in the log that is known to mean that the engine no longer works. */
  readonly findDegraded: (logTail: string) => string | undefined;
}

export interface LiveAnswer {
  readonly health: Health;
  /** "late": it was asked for, and no answer came in time; "unknown": not asked for, refused, or no answer to that. */
  readonly progress: EngineProgress | "unknown" | "late";
  /** Absent where it was not asked for, or the engine does not tell. */
  readonly generated?: Generated;
}

/** Counters that move while work is done; they stand still in a hung engine. */
export interface EngineProgress {
  readonly inFlight: number;
  readonly decodeTotal: number;
  readonly tokensTotal: number;
}
