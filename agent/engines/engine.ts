/** The port every engine is driven through: detected, opened, adopted, probed. One folder and one registry line per engine. */
import type { z } from "zod";
import type { EngineSettings, Mode } from "../../src/api/engine-settings.ts";
import type { MetalbridgeError } from "../../src/api/errors.ts";
import type { Runtime } from "../../src/api/fields/runtimes.ts";
import type { ReplicaTemplate } from "../../src/api/inference-replica.ts";
import type { EngineGauges } from "../../src/engines/contract/engine-gauges.ts";
import type { ExitReason } from "../../src/engines/contract/exit.ts";
import type { RunAtEnd } from "../../src/engines/contract/last-run.ts";
import type { Generated } from "../../src/engines/speed.ts";
import type { GateRoute, Protocol } from "../gate/routes.ts";
import type { ExitRecord, Instance, InstanceContext, InstanceTarget } from "../instances/instance.ts";
import type { Instances } from "../instances/instances.ts";
import type { DrainReading } from "../replicas/evidence/quiet.ts";
import type { ModelFacts, ModelStore, StoredFile } from "../store/types.ts";

/** What every engine's folder exports: its part of the agent's configuration, its driver, and how it is found. */
export interface HostEngine<Config> {
  readonly runtime: Runtime;
  readonly config: z.ZodType<Config>;
  readonly driver: (config: Config, options: EngineOptions) => EngineDriver;
  /** For doctor and selftest. Absent: it has no program of its own. */
  readonly find?: (config: Config, search: ProgramSearch) => Promise<FoundProgram | undefined>;
  /** Its name in selftest's step that shows its version and how many flags it has. Absent: no such step. */
  readonly selftestName?: string;
}

export interface ProgramSearch {
  readonly env: Readonly<Record<string, string>>;
  readonly firstAnswerTimeoutsMs?: readonly number[];
}

export interface FoundProgram {
  readonly path: string;
  readonly version: string;
  readonly flags?: { readonly size: number };
}

export interface EngineOptions {
  /** The environment of engines: never the agent's own, or its LLAMA_ARG_* variables would change every engine. */
  readonly env: Readonly<Record<string, string>>;
  /** What the agent's configuration says of the machine. */
  readonly machine: {
    readonly platform?: "darwin" | "linux" | undefined;
    readonly memory?: {
      readonly compute?: { readonly factor: number; readonly extraBytes: number } | undefined;
    };
    readonly sources?: { readonly stallMs: number };
    readonly disk?: { readonly reserve: number };
  };
  readonly instances: Instances;
  /** Bytes that all engines of this host may claim together; undefined until the machine was read. */
  readonly memoryBudget: () => number | undefined;
}

export interface DetectedRuntime {
  readonly name: string;
  readonly version: string;
  readonly path: string;
  /** Programs of it that hosts report by their own names. */
  readonly programs?: readonly InstalledProgram[];
}

export interface InstalledProgram {
  readonly name: string;
  readonly path: string;
  readonly version?: string;
}

/** The device memory an engine sees, where it reports it. */
export interface EngineDevice {
  readonly name: string;
  readonly description: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

/** Rewritten while the engine runs. */
export type GateFiles = Pick<GateRoute, "keyFiles" | "tls">;

/** One start: the replica's settings and what the host decided. */
export interface EngineLaunch {
  readonly template: ReplicaTemplate;
  readonly modelPath: string;
  readonly mmprojPath?: string;
  readonly draftPath?: string;
  /** All files of the model, the projector included. */
  readonly files: readonly StoredFile[];
  /** One for each of the template's `loraAdapters`. */
  readonly loraPaths?: readonly string[];
  /** File with one API key per line, mode 0600: what the engine itself is to ask for. */
  readonly apiKeyFile?: string;
  /** What the gate asks clients for and shows them. */
  readonly gateFiles?: GateFiles;
  readonly address: string;
  /** Reserved for this replica; an engine behind a shared daemon may leave it unused. */
  readonly port: number;
  /** The reservation: on disk, with the instance's handle, before anything of the engine runs. */
  readonly record: Readonly<Record<string, unknown>>;
}

/** What engine.json says of an earlier start, for its adoption. */
export interface EngineTrace {
  readonly port: number;
  /** The service that it serves; empty where the record was lost. */
  readonly service: string;
  /** All of engine.json, the instance's handle included. */
  readonly record: Readonly<Record<string, unknown>>;
}

/** Where a running engine answers, and how to ask it. */
export interface EngineTarget extends InstanceTarget {
  readonly mode: Mode;
  readonly apiKey?: string;
}

export type EngineHealth = "healthy" | "loading" | { readonly unhealthy: string };
/** `failed` begins with "HTTP" and the status where the engine answered. */
export type RequestResult = "ok" | { readonly failed: string };

export interface EngineDriver {
  readonly runtime: Runtime;
  /** What its engine speaks where it has other services too, and the gate passes only that. Absent: behind the gate all is passed. */
  readonly gate?: Exclude<Protocol, "any">;
  /** Undefined where the engine is not installed; throws MetalbridgeError where it is installed and unusable. */
  readonly detect: () => Promise<DetectedRuntime | undefined>;
  /** What to tell where it is not installed. Absent: that it was not found. */
  readonly missing?: MetalbridgeError;
  /** Starts it. Throws MetalbridgeError when the installed engine cannot honour the settings, or cannot be started. */
  readonly open: (place: InstanceContext, launch: EngineLaunch) => Promise<Instance>;
  /** What an earlier agent opened in this place; undefined where nothing was started. Throws where that cannot be read. */
  readonly adopt: (place: InstanceContext, trace: EngineTrace) => Promise<Instance | undefined>;
  /** For sources that only the engine can fetch; the store fetches all others. */
  readonly fetcher?: EngineFetcher;
  /** Bytes that these files will take with these settings. Throws MetalbridgeError where they do not say. */
  readonly claimBytes: (
    settings: EngineSettings,
    model: ModelFacts,
    draft?: ModelFacts,
    loraAdapters?: readonly ModelFacts[],
  ) => number;
  /** For status: what that figure is based on. Absent: on the header of the model. */
  readonly claimBasis?: (settings: EngineSettings) => string;
  readonly probeHealth: (
    target: EngineTarget,
    options?: { readonly timeoutMs?: number },
  ) => Promise<EngineHealth>;
  /** One real one-token request in the service's mode. */
  readonly probeRequest: (
    target: EngineTarget,
    options?: { readonly timeoutMs?: number; readonly signal?: AbortSignal },
  ) => Promise<RequestResult>;
  /** Requests being worked on or queued, and counters that reveal those in between; a failed reading is "unknown", which means busy. */
  readonly readWork: (target: EngineTarget) => Promise<DrainReading | "unknown">;
  /** Health and progress of an engine that serves, with one request where that is enough. Wakes no sleeping engine. */
  readonly probeLive: (
    target: EngineTarget,
    options?: { readonly timeoutMs?: number },
  ) => Promise<LivenessReply>;
  /** Progress alone, however long the engine takes to answer; "unknown" where it does not answer or does not report it. */
  readonly readProgress: (
    target: EngineTarget,
    options: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ) => Promise<EngineProgress | "unknown">;
  /** What the engine reports of its work, for metrics; one short request. Absent where it reports nothing. */
  readonly gauges?: (
    target: EngineTarget,
    options: { readonly timeoutMs: number },
  ) => Promise<EngineGauges | "unknown">;
  readonly facts: (target: EngineTarget) => Promise<{ readonly contextPerSlot?: number }>;
  /** None where it is not installed or does not report any; "unknown": the reading failed. */
  readonly devices: () => Promise<readonly EngineDevice[] | "unknown">;
  readonly classifyExit: (
    exit: ExitRecord | "unknown",
    logTail: string,
    run?: RunAtEnd,
  ) => ExitReason | Promise<ExitReason>;
  /** The log without the text of clients that the engine repeats in it: what may be shown outside their namespace. */
  readonly ownLines: (log: string) => string;
  /** The first line in the log that is known to mean that the engine no longer works. */
  readonly findDegraded: (logTail: string) => string | undefined;
}

/** On the same terms as the store's own. */
export interface EngineFetcher extends Pick<ModelStore, "resolve" | "fetch"> {
  readonly takes: (source: string) => boolean;
}

export interface LivenessReply {
  readonly health: EngineHealth;
  /** "late": it was asked for, and no answer came in time; "unknown": not asked for, refused, or no answer to that. */
  readonly progress: EngineProgress | "unknown" | "late";
  /** Absent where it was not asked for, or the engine does not report it. */
  readonly generated?: Generated;
}

/** Counters that move while work is done; they do not move in a hung engine. */
export interface EngineProgress {
  readonly inFlight: number;
  readonly decodeTotal: number;
  readonly tokensTotal: number;
}
