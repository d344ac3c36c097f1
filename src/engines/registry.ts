/** One entry per runtime: which formats it loads, on what, and where it runs. */
import { engineFields, type Runtime } from "../api/engine-settings.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { Program } from "../api/fields/program.ts";
import type { ModelFormat } from "../api/fields/shared.ts";
import type { ReplicaTemplate } from "../api/inference-replica.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { ClaimEstimator } from "./claims.ts";
import { genericClaims, honoredProbes, programFields, unhonoredParts } from "./generic/hosting.ts";
import { toProgram } from "./generic/program.ts";
import { llamacppClaims } from "./llamacpp/claims.ts";
import { ollamaClaims } from "./ollama/claims.ts";
import { OLLAMA_SETTINGS } from "./ollama/settings.ts";
import { omlxClaims } from "./omlx/claims.ts";
import { OMLX_SETTINGS } from "./omlx/settings.ts";

export interface RuntimeEntry {
  readonly runtime: Runtime;
  readonly formats: readonly ModelFormat[];
  /** Never chosen by format: it loads what its command loads. */
  readonly isOnlyByName?: true;
  readonly accelerators: readonly Accelerator[];
  /** The API that clients find behind the Service. */
  readonly api: "openai" | "custom";
  /** host: a native process under an agent. pod: a Deployment on Linux nodes. */
  readonly runsAs: readonly ("host" | "pod")[];
  /** Several models share one process of the host. */
  readonly isSharedDaemon: boolean;
  /** Without the gate it can be made to check the API key itself. */
  readonly checksApiKey?: true;
  /** Fields of InferenceService.spec that it honours on a host. */
  readonly hostSettings?: readonly string[];
  /** Settings of probeOverrides that it honours there beside those of every runtime. */
  readonly hostProbes?: readonly string[];
  /** Parts of those fields that it does not honour there, each as a path below spec. */
  readonly unhonoredParts?: (spec: InferenceServiceSpec) => string[];
  /** Fields of InferenceService.spec that make a revision with this runtime, beside those of every runtime. */
  readonly revisionFields?: readonly (keyof InferenceServiceSpec)[];
  /** The program that the service itself describes. Throws MetalbridgeError. */
  readonly program?: (spec: InferenceServiceSpec) => Program;
  /** Absent: this version has no driver for it on hosts. */
  readonly claims?: ClaimEstimator;
}

type GateWish = Pick<ReplicaTemplate, "runtime" | "gate" | "auth" | "tls">;

/** Settings that llama-server does not have. */
const FOREIGN_SETTINGS = ["turboQuantBits", "pagedSSDCacheDir", "hotCacheMaxSize", "pagedSSDCacheMaxSize"];

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
    hostSettings: [
      ...Object.keys(engineFields).filter((field) => !FOREIGN_SETTINGS.includes(field)),
      "speculativeDecoding",
      "loraAdapters",
    ],
    claims: llamacppClaims,
  },
  {
    runtime: "omlx",
    formats: ["mlx"],
    accelerators: ["metal"],
    api: "openai",
    runsAs: ["host"],
    isSharedDaemon: true,
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
  },
  {
    runtime: "sglang",
    formats: ["safetensors"],
    accelerators: ["cuda", "rocm"],
    api: "openai",
    runsAs: ["pod"],
    isSharedDaemon: false,
  },
  {
    runtime: "tgi",
    formats: ["safetensors"],
    accelerators: ["cuda", "rocm", "intel"],
    api: "openai",
    runsAs: ["pod"],
    isSharedDaemon: false,
  },
  {
    runtime: "personaplex",
    formats: ["safetensors"],
    accelerators: ["cuda"],
    api: "custom",
    runsAs: ["pod"],
    isSharedDaemon: false,
  },
  {
    runtime: "generic",
    formats: ["gguf", "mlx", "safetensors", "pytorch", "custom"],
    isOnlyByName: true,
    accelerators: ["metal", "cuda", "rocm", "vulkan", "intel", "cpu"],
    api: "custom",
    runsAs: ["host", "pod"],
    isSharedDaemon: false,
    hostSettings: ["contextSize", "parallelSlots", ...programFields],
    hostProbes: honoredProbes,
    unhonoredParts,
    revisionFields: programFields,
    program: toProgram,
    claims: genericClaims,
  },
];

/** The runtime for a model that names none; undefined where none loads this format on this accelerator. */
export function chooseRuntime(format: ModelFormat, accelerator: Accelerator): Runtime | undefined {
  return RUNTIMES_IN_ORDER.find(
    (entry) => entry.isOnlyByName !== true && canServe(entry, format, accelerator),
  )?.runtime;
}

/** Whether a runtime that was named can serve the model. */
export function isRuntimeFor(runtime: Runtime, format: ModelFormat, accelerator: Accelerator): boolean {
  return RUNTIMES_IN_ORDER.some((entry) => entry.runtime === runtime && canServe(entry, format, accelerator));
}

function canServe(entry: RuntimeEntry, format: ModelFormat, accelerator: Accelerator): boolean {
  return entry.formats.includes(format) && entry.accelerators.includes(accelerator);
}

/** Settings that only engines on hosts know. */
export const HOST_ONLY_SETTINGS: readonly string[] = FOREIGN_SETTINGS;

export function runtimeEntry(runtime: Runtime): RuntimeEntry | undefined {
  return RUNTIMES_IN_ORDER.find((entry) => entry.runtime === runtime);
}

/** Whether any runtime that hosts have a driver for can serve the format. */
export function isServedOnHosts(format: ModelFormat): boolean {
  return hostRuntimes().some((runtime) => isRuntimeFor(runtime, format, DEFAULT_ACCELERATOR));
}

/** Runtimes that hosts have a driver for. */
export function hostRuntimes(): readonly Runtime[] {
  return RUNTIMES_IN_ORDER.filter(({ claims }) => claims !== undefined).map(({ runtime }) => runtime);
}

/** What engines compute on where nothing is known of the host. */
export const DEFAULT_ACCELERATOR: Accelerator = "metal";
/** What engines on hosts compute on. */
export const HOST_ACCELERATORS: readonly Accelerator[] = [DEFAULT_ACCELERATOR, "cpu"];

/** By `status.info.os` of a Host. */
export function hostAccelerator(os: string | undefined): Accelerator {
  return os === "linux" ? "cpu" : DEFAULT_ACCELERATOR;
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
