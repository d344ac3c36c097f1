/** The port that the agent drives every engine through: detect, open, adopt, probe. An engine is one folder and one registry line. */
import type { z } from "zod";
import type { EngineSettings, Mode } from "../../../src/api/engine-settings.ts";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import type { ReplicaTemplate } from "../../../src/api/inference-replica.ts";
import type { BenchProgram } from "../../../src/engines/contract/bench.ts";
import type { MemoryClaim } from "../../../src/engines/contract/claims.ts";
import type { EngineGauges } from "../../../src/engines/contract/engine-gauges.ts";
import type { ExitReason } from "../../../src/engines/contract/exit.ts";
import type { RunAtEnd } from "../../../src/engines/contract/last-run.ts";
import type { Generated } from "../../../src/engines/speed.ts";
import type { GateRoute, Protocol } from "../../gate/routes.ts";
import type { ExitRecord, Instance, InstanceContext, InstanceTarget } from "../../instances/instance.ts";
import type { Instances } from "../../instances/instances.ts";
import type { ModelFacts, ModelStore, StoredFile } from "../../store/types.ts";

/** What every engine's folder exports: its part of the agent's configuration, its driver, and how to find it. */
export interface HostEngine<Config> {
  readonly runtime: Runtime;
  readonly config: z.ZodType<Config>;
  readonly driver: (config: Config, options: EngineOptions) => EngineDriver;
  /** For doctor and selftest. Absent: the engine has no program of its own. */
  readonly find?: (config: Config, search: ProgramSearch) => Promise<FoundProgram | undefined>;
  /** The engine's name in the selftest step that prints its version and number of flags. Absent: no such step. */
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
  /** The machine, according to the agent's configuration. */
  readonly machine: {
    readonly platform?: "darwin" | "linux" | undefined;
    readonly memory?: {
      readonly compute?: { readonly factor: number; readonly extraBytes: number } | undefined;
    };
    readonly sources?: { readonly stallMs: number };
    readonly disk?: { readonly reserve: number };
    /** Paths of the programs of BackendRuntimes that the host allows. */
    readonly backends?: Readonly<Record<string, { readonly path: string }>>;
  };
  readonly instances: Instances;
  /** Bytes that all engines of this host may claim together; undefined until the machine was read. */
  readonly memoryBudget: () => number | undefined;
}

export interface DetectedRuntime {
  readonly name: string;
  readonly version: string;
  readonly path: string;
}

/** What a host reports of a runtime. */
export interface DetectedPrograms extends Omit<DetectedRuntime, "path"> {
  /** Absent: the host reports only the programs. */
  readonly path?: string | undefined;
  /** Programs of the runtime that hosts report by their own names. */
  readonly programs?: readonly InstalledProgram[];
}

export interface InstalledProgram {
  readonly name: string;
  readonly path: string;
  readonly version?: string;
}

/** The device memory that an engine reports. */
export interface EngineDevice {
  readonly name: string;
  readonly description: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

/** Key and certificate files, which may be rewritten while the engine runs. */
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
  /** File with one API key per line, mode 0600: the keys that the engine itself must require. */
  readonly apiKeyFile?: string;
  /** The keys that the gate requires from clients, and the certificate that it presents. */
  readonly gateFiles?: GateFiles;
  readonly address: string;
  /** Reserved for this replica; an engine behind a shared daemon may leave it unused. */
  readonly port: number;
  /** The reservation. It is on disk, with the instance's handle, before any process of the engine runs. */
  readonly record: Readonly<Record<string, unknown>>;
}

/** An earlier start, as engine.json records it for adoption. */
export interface EngineTrace {
  readonly port: number;
  /** The service that the engine serves; empty if the record was lost. */
  readonly service: string;
  /** All of engine.json, the instance's handle included. */
  readonly record: Readonly<Record<string, unknown>>;
}

/** The address of a running engine, and the credentials for it. */
export interface EngineTarget extends InstanceTarget {
  readonly mode: Mode;
  readonly apiKey?: string;
}

export interface ProbeOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export type EngineHealth = "healthy" | "loading" | { readonly unhealthy: string };
/** `failed` begins with "HTTP" and the status if the engine answered. */
export type RequestResult = "ok" | { readonly failed: string };

export interface EngineDriver {
  readonly runtime: Runtime;
  /** The only protocol that the gate passes to an engine that has other services too. Absent: the gate passes every request. */
  readonly gate?: Exclude<Protocol, "any">;
  /** Undefined if the engine is not installed; throws MetalbridgeError if it is installed but unusable. */
  readonly detect: () => Promise<DetectedPrograms | undefined>;
  /** Starts the engine. Throws MetalbridgeError if the installed engine cannot honor the settings or cannot be started. */
  readonly open: (place: InstanceContext, launch: EngineLaunch) => Promise<Instance>;
  /** The instance that an earlier agent opened in this place; undefined if none was started. Throws if that cannot be read. */
  readonly adopt: (place: InstanceContext, trace: EngineTrace) => Promise<Instance | undefined>;
  /** For sources that only the engine can fetch; the store fetches all others. */
  readonly fetcher?: EngineFetcher;
  /** Memory that these files will take with these settings. Throws MetalbridgeError if the files do not determine that. */
  readonly claim: (
    settings: EngineSettings,
    model: ModelFacts,
    draft?: ModelFacts,
    loraAdapters?: readonly ModelFacts[],
  ) => MemoryClaim;
  /** For status: what the claim is based on. Absent: on the header of the model. */
  readonly claimBasis?: (settings: EngineSettings) => string;
  readonly probeHealth: (target: EngineTarget, options?: ProbeOptions) => Promise<EngineHealth>;
  /** One real one-token request in the service's mode. */
  readonly probeRequest: (target: EngineTarget, options?: ProbeOptions) => Promise<RequestResult>;
  /**
   * Requests in flight or queued, and counters that reveal those between two readings. "unknown", a failed reading, means
   * busy. Absent: the engine does not report its requests.
   */
  readonly readWork?: (target: EngineTarget) => Promise<DrainReading | "unknown">;
  /** Health and progress of a serving engine, with one request if that suffices. Wakes no sleeping engine. Absent: it reports no progress. */
  readonly probeLive?: (target: EngineTarget, options?: ProbeOptions) => Promise<LivenessReply>;
  /** Progress alone, however long the engine takes to answer; "unknown" if it does not answer or does not report it. */
  readonly readProgress?: (
    target: EngineTarget,
    options: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ) => Promise<EngineProgress | "unknown">;
  /** The engine's own gauges, for metrics; one short request. Absent: it reports none. */
  readonly gauges?: (
    target: EngineTarget,
    options: { readonly timeoutMs: number },
  ) => Promise<EngineGauges | "unknown">;
  /** Tokens that one request may use, according to the engine. */
  readonly readContextPerSlot?: (target: EngineTarget) => Promise<number | undefined>;
  /** No devices if the engine is not installed; "unknown" if the reading failed. Absent: it does not report devices. */
  readonly devices?: () => Promise<readonly EngineDevice[] | "unknown">;
  /** The program that measures the engine on an idle host. Absent: there is none. */
  readonly bench?: EngineBench;
  readonly classifyExit: (
    exit: ExitRecord | "unknown",
    logTail: string,
    run?: RunAtEnd,
  ) => ExitReason | Promise<ExitReason>;
  /** The log without text of clients that the engine repeats in it: the part that may be shown outside their namespace. */
  readonly ownLines: (log: string) => string;
  /** The first log line that is known to mean that the engine no longer works. Absent: no such line is known. */
  readonly findDegraded?: (logTail: string) => string | undefined;
}

/** A benchmark program of the engine. */
export interface EngineBench extends BenchProgram {
  /** Path of the program. Throws MetalbridgeError if it is not installed, or must not open a model with these files. */
  readonly find: (files: readonly Pick<StoredFile, "name">[]) => Promise<string>;
  /** The complete environment of the program; `dir` is a folder of its own. */
  readonly env: (dir: string) => Readonly<Record<string, string>>;
}

/** Fetches models under the same contract as the store. */
export interface EngineFetcher extends Pick<ModelStore, "resolve" | "fetch"> {
  readonly takes: (source: string) => boolean;
}

export interface LivenessReply {
  readonly health: EngineHealth;
  /** "late": the engine did not answer in time; "unknown": it was not queried, refused, or does not report progress. */
  readonly progress: EngineProgress | "unknown" | "late";
  /** Absent if it was not queried or the engine does not report it. */
  readonly generated?: Generated;
}

/** Requests running or waiting, and counters that increase while the engine works and stay constant in a hung one. */
export interface EngineProgress {
  readonly inFlight: number;
  readonly decodeTotal: number;
  readonly tokensTotal: number;
}

/** Older engines count no decode steps, only tokens. */
export type DrainReading = Pick<EngineProgress, "inFlight" | "tokensTotal"> & {
  readonly decodeTotal?: number;
};
