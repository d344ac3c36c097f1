/** The description that the folder of each engine exports and the registry lists. */
import type { BackendRuntimeSpec } from "../../api/backend-runtime.ts";
import type { BENCHMARK_TOOLS } from "../../api/benchmark.ts";
import type { EngineSettings, Mode } from "../../api/engine-settings.ts";
import type { ErrorCode } from "../../api/errors.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { ProgramSpec } from "../../api/fields/program.ts";
import type { Runtime } from "../../api/fields/runtimes.ts";
import type { ModelFormat } from "../../api/fields/shared.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import type { EngineArguments } from "./arguments.ts";
import type { ClaimEstimator } from "./claims.ts";
import type { GroupRuntime } from "./group.ts";
import type { PodRuntime } from "./pod.ts";

export interface EngineDescription {
  readonly runtime: Runtime;
  readonly formats: readonly ModelFormat[];
  /** Formats for which the engine is chosen if spec.runtime is absent. Defaults to all of its formats. */
  readonly chosenFor?: readonly ModelFormat[];
  /** Defaults to all modes. */
  readonly modes?: readonly Mode[];
  readonly accelerators: readonly Accelerator[];
  /** HTTP paths of the inference APIs; empty if the program determines them. */
  readonly apiPaths: readonly string[];
  /** Several models share a process on the host. */
  readonly isSharedDaemon: boolean;
  /** The engine can check the API key itself without the gate. */
  readonly checksApiKey?: true;
  /** The engine requires a key from the gate, so that other programs on the host cannot bypass the gate. */
  readonly asksGateForKey?: true;
  /** Additional fields of InferenceService.spec that determine the revision with this runtime. */
  readonly revisionFields?: readonly (keyof InferenceServiceSpec)[];
  /** The program that the service itself describes. Throws MetalbridgeError. */
  readonly program?: (spec: InferenceServiceSpec, host?: BackendRuntimeSpec["host"]) => ProgramSpec;
  /** Fills in defaults of this runtime for the format. */
  readonly complete?: (spec: InferenceServiceSpec, format: ModelFormat) => InferenceServiceSpec;
  /** Arguments in extraArgs that are set as settings. */
  readonly arguments?: EngineArguments;
  /** A native process under an agent; absent if the engine does not run on hosts. */
  readonly host?: HostSide;
  /** A Deployment on Linux nodes; absent if the engine does not run in pods. */
  readonly pod?: PodRuntime;
  /** A LeaderWorkerSet; absent if the engine cannot serve a model over several pods. */
  readonly group?: GroupRuntime;
  /** Program names that identify the engine on a machine, also if the agent did not install or start it. */
  readonly traces?: EngineTraces;
}

export interface HostSide {
  /** Command that installs the engine, for messages. */
  readonly install: string;
  /** Fields of InferenceService.spec that the engine honors. */
  readonly settings: readonly string[];
  /** Additional settings of probeOverrides that the engine honors. */
  readonly probes?: readonly string[];
  /** Parts of these fields that the engine does not honor, as paths below spec. */
  readonly unhonoredParts?: (spec: InferenceServiceSpec) => string[];
  /** Programs that hosts report under their own names, and the program that a replica requires. */
  readonly programs?: readonly { readonly name: string; readonly install: string }[];
  readonly neededProgram?: (settings: EngineSettings) => string | undefined;
  readonly claims: ClaimEstimator;
  /** The agent reads the requests in flight from the engine. Without it, only the gate counts them. */
  readonly reportsRequests?: true;
  /** Program that measures the engine on a host. Absent: the engine is not benchmarked on hosts. */
  readonly benchmarkTool?: (typeof BENCHMARK_TOOLS)[number];
  /** Versions that fail with the agent. */
  readonly knownBad?: readonly { readonly below: string; readonly why: string }[];
}

export interface EngineTraces {
  /** File names of the programs. An installed engine has the first on PATH. */
  readonly programs?: readonly string[];
  /** Names of the processes, which the kernel truncates to 15 characters. */
  readonly processes?: RegExp;
  /** Folders of models, relative to the home folder. */
  readonly modelFolders?: readonly string[];
  /** Homebrew formula, which may run the engine as a service. */
  readonly formula?: string;
  /** Pattern of systemd units. */
  readonly units?: string;
  /** An application that interferes with engines while it runs. */
  readonly app?: InterferingApp;
}

/** A check of doctor. */
export interface InterferingApp {
  readonly code: ErrorCode;
  readonly title: string;
  readonly severity: "error" | "warning";
  readonly platforms?: readonly ("darwin" | "linux")[];
  readonly reason: string;
  /** Matches the command lines of the application's processes. */
  readonly command: RegExp;
  readonly finding: string;
}
