/** One entry per runtime: which formats it loads, on what, and where it runs. */
import type { EngineSettings, Mode, Runtime } from "../api/engine-settings.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { ProgramSpec } from "../api/fields/program.ts";
import type { ModelFormat } from "../api/fields/shared.ts";
import type { ReplicaTemplate } from "../api/inference-replica.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { ClaimEstimator } from "./claims.ts";
import { genericClaims, honoredProbes, programFields, unhonoredParts } from "./generic/hosting.ts";
import { KNOWN_PROGRAMS, knownName, withKnownProgram } from "./generic/known-programs.ts";
import { genericPod } from "./generic/pod.ts";
import { toProgram } from "./generic/program.ts";
import { llamacppClaims } from "./llamacpp/claims.ts";
import { llamacppPod } from "./llamacpp/pod.ts";
import { LLAMACPP_SETTINGS } from "./llamacpp/settings.ts";
import { ollamaClaims } from "./ollama/claims.ts";
import { OLLAMA_SETTINGS } from "./ollama/settings.ts";
import { omlxClaims } from "./omlx/claims.ts";
import { OMLX_SETTINGS } from "./omlx/settings.ts";
import { personaPlexPod } from "./personaplex/pod.ts";
import type { PodRuntime } from "./pods.ts";
import { sglangPod } from "./sglang/pod.ts";
import { tensorrtLLMPod } from "./tensorrt-llm/pod.ts";
import { tgiPod } from "./tgi/pod.ts";
import { vllmPod } from "./vllm/pod.ts";

export interface RuntimeEntry {
  readonly runtime: Runtime;
  readonly formats: readonly ModelFormat[];
  /** Formats for which it is chosen where spec.runtime is absent. Absent: all of them. */
  readonly chosenFor?: readonly ModelFormat[];
  /** Absent: all modes. */
  readonly modes?: readonly Mode[];
  /** How a host gets it, for messages: a command. Absent: hosts never have it. */
  readonly install?: string;
  readonly accelerators: readonly Accelerator[];
  /** The API that clients find behind the Service. */
  readonly api: "openai" | "custom";
  /** host: a native process under an agent. pod: a Deployment on Linux nodes. */
  readonly runsAs: readonly ("host" | "pod")[];
  /** Several models share one process of the host. */
  readonly isSharedDaemon: boolean;
  /** Without the gate it can be made to check the API key itself. */
  readonly checksApiKey?: true;
  /** Behind the gate it asks for a key of the agent's, so that other programs of the host cannot bypass the gate. */
  readonly asksGateForKey?: true;
  /** Fields of InferenceService.spec that it honours on a host. */
  readonly hostSettings?: readonly string[];
  /** Settings of probeOverrides that it honours there beside those of every runtime. */
  readonly hostProbes?: readonly string[];
  /** Parts of those fields that it does not honour there, each as a path below spec. */
  readonly unhonoredParts?: (spec: InferenceServiceSpec) => string[];
  /** Fields of InferenceService.spec that make a revision with this runtime, beside those of every runtime. */
  readonly revisionFields?: readonly (keyof InferenceServiceSpec)[];
  /** The program that the service itself describes. Throws MetalbridgeError. */
  readonly program?: (spec: InferenceServiceSpec) => ProgramSpec;
  /** The spec with what this runtime fills in for the format where the service leaves it out. */
  readonly complete?: (spec: InferenceServiceSpec, format: ModelFormat) => InferenceServiceSpec;
  /** Programs that hosts report by their own names, and what a replica needs of them. */
  readonly programs?: readonly { readonly name: string; readonly install: string }[];
  readonly neededProgram?: (settings: EngineSettings) => string | undefined;
  /** Absent: this version has no driver for it on hosts. */
  readonly claims?: ClaimEstimator;
  /** Absent: it does not run in pods. */
  readonly pod?: PodRuntime;
}

type GateWish = Pick<ReplicaTemplate, "runtime" | "gate" | "auth" | "tls">;

/** In order of preference. */
export const RUNTIMES_IN_ORDER: readonly RuntimeEntry[] = [
  {
    runtime: "llamacpp",
    formats: ["gguf"],
    accelerators: ["metal", "cuda", "rocm", "vulkan", "intel", "cpu"],
    api: "openai",
    runsAs: ["host", "pod"],
    isSharedDaemon: false,
    checksApiKey: true,
    asksGateForKey: true,
    install: "brew install llama.cpp",
    hostSettings: LLAMACPP_SETTINGS,
    claims: llamacppClaims,
    pod: llamacppPod,
  },
  {
    runtime: "omlx",
    formats: ["mlx"],
    accelerators: ["metal"],
    api: "openai",
    runsAs: ["host"],
    isSharedDaemon: true,
    asksGateForKey: true,
    install: "brew tap jundot/omlx https://github.com/jundot/omlx && brew install omlx",
    hostSettings: OMLX_SETTINGS,
    claims: omlxClaims,
  },
  {
    runtime: "ollama",
    formats: ["ollama", "gguf"],
    accelerators: ["metal", "cuda", "rocm", "cpu"],
    api: "openai",
    runsAs: ["host"],
    isSharedDaemon: true,
    modes: ["chat", "embedding"],
    install: "brew install ollama",
    hostSettings: OLLAMA_SETTINGS,
    claims: ollamaClaims,
  },
  {
    runtime: "vllm",
    formats: ["safetensors"],
    accelerators: ["cuda", "rocm", "intel", "cpu"],
    api: "openai",
    runsAs: ["pod"],
    isSharedDaemon: false,
    pod: vllmPod,
  },
  {
    runtime: "sglang",
    formats: ["safetensors"],
    accelerators: ["cuda", "rocm"],
    api: "openai",
    runsAs: ["pod"],
    isSharedDaemon: false,
    pod: sglangPod,
  },
  {
    runtime: "tgi",
    formats: ["safetensors"],
    accelerators: ["cuda", "rocm", "intel"],
    api: "openai",
    runsAs: ["pod"],
    isSharedDaemon: false,
    pod: tgiPod,
  },
  {
    runtime: "tensorrt-llm",
    formats: ["safetensors"],
    accelerators: ["cuda"],
    api: "openai",
    runsAs: ["pod"],
    isSharedDaemon: false,
    modes: ["chat"],
    pod: tensorrtLLMPod,
  },
  {
    runtime: "personaplex",
    formats: ["safetensors"],
    accelerators: ["cuda"],
    api: "custom",
    runsAs: ["pod"],
    isSharedDaemon: false,
    pod: personaPlexPod,
  },
  {
    runtime: "generic",
    formats: ["gguf", "mlx", "safetensors", "pytorch", "custom"],
    chosenFor: KNOWN_PROGRAMS.flatMap(({ formats }) => formats),
    accelerators: ["metal", "cuda", "rocm", "vulkan", "intel", "cpu"],
    api: "custom",
    runsAs: ["host", "pod"],
    isSharedDaemon: false,
    install: "allow the program in generic.roots of the agent's configuration",
    hostSettings: ["contextSize", "parallelSlots", ...programFields],
    hostProbes: honoredProbes,
    unhonoredParts,
    revisionFields: programFields,
    program: toProgram,
    complete: withKnownProgram,
    programs: KNOWN_PROGRAMS,
    neededProgram: ({ program }) => knownName(program),
    claims: genericClaims,
    pod: genericPod,
  },
];

/** What may serve a model where spec.runtime is absent, in order of preference; with and without a driver on hosts. */
export function runtimesFor(format: ModelFormat, accelerator: Accelerator, mode: Mode): readonly Runtime[] {
  return RUNTIMES_IN_ORDER.filter(
    (entry) =>
      canServe(entry, format, accelerator) &&
      (entry.chosenFor ?? entry.formats).includes(format) &&
      (entry.modes ?? [mode]).includes(mode),
  ).map(({ runtime }) => runtime);
}

/** Whether a runtime that was named can serve the model. */
export function isRuntimeFor(runtime: Runtime, format: ModelFormat, accelerator: Accelerator): boolean {
  return RUNTIMES_IN_ORDER.some((entry) => entry.runtime === runtime && canServe(entry, format, accelerator));
}

function canServe(entry: RuntimeEntry, format: ModelFormat, accelerator: Accelerator): boolean {
  return entry.formats.includes(format) && entry.accelerators.includes(accelerator);
}

export function runtimeEntry(runtime: Runtime): RuntimeEntry | undefined {
  return RUNTIMES_IN_ORDER.find((entry) => entry.runtime === runtime);
}

/** The name under which `status.runtimes` of a Host has what a replica needs: its runtime, or one program of it. */
export function requiredRuntimeName({
  runtime,
  engine,
}: {
  readonly runtime: Runtime;
  readonly engine: EngineSettings;
}): string {
  return runtimeEntry(runtime)?.neededProgram?.(engine) ?? runtime;
}

/** How a host gets what `status.runtimes` has under this name. */
export function installHintOf(name: string): string | undefined {
  const known = RUNTIMES_IN_ORDER.flatMap(({ runtime, install, programs = [] }) => [
    { name: runtime, install },
    ...programs,
  ]);
  return known.find((one) => one.name === name)?.install;
}

/** Whether any runtime that hosts have a driver for can serve the format. */
export function isServedOnHosts(format: ModelFormat): boolean {
  return hostRuntimes().some((runtime) => isRuntimeFor(runtime, format, DEFAULT_HOST_ACCELERATOR));
}

/** Runtimes that hosts have a driver for. */
export function hostRuntimes(): readonly Runtime[] {
  return RUNTIMES_IN_ORDER.filter(({ claims }) => claims !== undefined).map(({ runtime }) => runtime);
}

/** What engines compute on where nothing is known of the host. */
export const DEFAULT_HOST_ACCELERATOR: Accelerator = "metal";
/** What engines on hosts compute on. */
export const HOST_ACCELERATORS: readonly Accelerator[] = [DEFAULT_HOST_ACCELERATOR, "cpu"];

/** By `status.info.os` of a Host. */
export function hostAccelerator(os: string | undefined): Accelerator {
  return os === "linux" ? "cpu" : DEFAULT_HOST_ACCELERATOR;
}

/** Whether the gate is in front of such a replica's engine. */
export function isGated({ runtime, gate, auth, tls }: GateWish): boolean {
  if (gate === "Always" || tls !== undefined || runtimeEntry(runtime)?.isSharedDaemon === true) return true;
  return gate !== "Never" && auth !== undefined;
}

/** Throws `GateNeeded` where the service refuses the gate that it cannot do without. */
export function checkGate(wish: GateWish): void {
  if (wish.gate !== "Never") return;
  const entry = runtimeEntry(wish.runtime);
  const why =
    entry?.isSharedDaemon === true
      ? `with runtime ${wish.runtime} many services share one server, and only the gate gives each its own port and model`
      : wish.auth !== undefined && entry?.checksApiKey !== true
        ? `runtime ${wish.runtime} cannot check API keys, the gate does`
        : undefined;
  if (why !== undefined) throw new MetalbridgeError("GateNeeded", `spec.endpoint.gate is Never, but ${why}`);
}
