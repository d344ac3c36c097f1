/** What every engine's folder exports: one description, which the registry lists and everything else reads. */
import type { EngineSettings, Mode } from "../../api/engine-settings.ts";
import type { ErrorCode } from "../../api/errors.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { ProgramSpec } from "../../api/fields/program.ts";
import type { Runtime } from "../../api/fields/runtimes.ts";
import type { ModelFormat } from "../../api/fields/shared.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import type { ClaimEstimator } from "./claims.ts";
import type { PodRuntime } from "./pod.ts";

export interface EngineDescription {
  readonly runtime: Runtime;
  readonly formats: readonly ModelFormat[];
  /** Formats for which it is chosen where spec.runtime is absent. Absent: all of them. */
  readonly chosenFor?: readonly ModelFormat[];
  /** Absent: all modes. */
  readonly modes?: readonly Mode[];
  readonly accelerators: readonly Accelerator[];
  /** The API that clients find behind the Service. */
  readonly api: "openai" | "custom";
  /** Several models share one process of the host. */
  readonly isSharedDaemon: boolean;
  /** Without the gate it can be made to check the API key itself. */
  readonly checksApiKey?: true;
  /** Behind the gate it asks for a key of the agent's, so that other programs of the host cannot bypass the gate. */
  readonly asksGateForKey?: true;
  /** Fields of InferenceService.spec that make a revision with this runtime, beside those of every runtime. */
  readonly revisionFields?: readonly (keyof InferenceServiceSpec)[];
  /** The program that the service itself describes. Throws MetalbridgeError. */
  readonly program?: (spec: InferenceServiceSpec) => ProgramSpec;
  /** The spec with what this runtime fills in for the format where the service leaves it out. */
  readonly complete?: (spec: InferenceServiceSpec, format: ModelFormat) => InferenceServiceSpec;
  /** A native process under an agent. Absent: it does not run on hosts. */
  readonly host?: HostSide;
  /** A Deployment on Linux nodes. Absent: it does not run in pods. */
  readonly pod?: PodRuntime;
  /** How it is recognized on a machine, whoever installed or started it. */
  readonly traces?: EngineTraces;
}

export interface HostSide {
  /** How a host gets it, for messages: a command. */
  readonly install: string;
  /** Fields of InferenceService.spec that it honors. */
  readonly settings: readonly string[];
  /** Settings of probeOverrides that it honors beside those of every runtime. */
  readonly probes?: readonly string[];
  /** Parts of those fields that it does not honor, each as a path below spec. */
  readonly unhonoredParts?: (spec: InferenceServiceSpec) => string[];
  /** Programs that hosts report by their own names, and what a replica needs of them. */
  readonly programs?: readonly { readonly name: string; readonly install: string }[];
  readonly neededProgram?: (settings: EngineSettings) => string | undefined;
  readonly claims: ClaimEstimator;
  /** Versions that fail with what the agent asks of them. */
  readonly knownBad?: readonly { readonly below: string; readonly why: string }[];
}

export interface EngineTraces {
  /** File names of its programs. The first is on PATH where it is installed. */
  readonly programs?: readonly string[];
  /** Names of its processes, of which the kernel keeps 15 characters. */
  readonly processes?: RegExp;
  /** Folders of its models in a home folder. */
  readonly modelFolders?: readonly string[];
  /** Homebrew's formula, which may run it as a service. */
  readonly formula?: string;
  /** Units of systemd, as a pattern. */
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
  /** Of the command line of its processes. */
  readonly command: RegExp;
  readonly finding: string;
}
