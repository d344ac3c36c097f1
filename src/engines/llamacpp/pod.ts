/** llama-server as a pod: the same command line as on hosts, for the build that the images are pinned to. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { Offloaded, PodCommand, PodGPUs, PodInput, PodRuntime } from "../contract/pod.ts";
import { buildArgv } from "./argv.ts";
import type { LlamaServerInput } from "./argv-input.ts";
import { PINNED } from "./pinned.ts";
import { LLAMACPP_SETTINGS } from "./settings.ts";

export const llamacppPod: PodRuntime = {
  images: {
    cpu: image(""),
    cuda: image("-cuda"),
    rocm: image("-rocm"),
    vulkan: image("-vulkan"),
    intel: image("-intel"),
  } satisfies Partial<Record<Accelerator, string>>,
  port: 8080,
  address: "::",
  healthPath: "/health",
  metrics: {
    path: "/metrics",
    inFlight: ["llamacpp:requests_processing", "llamacpp:requests_deferred"],
    load: "llamacpp:requests_processing",
    generatedTokens: "llamacpp:tokens_predicted_total",
    isProtected: true,
  },
  apiKey: { by: "file", open: "/health and OPTIONS requests" },
  offloaded: offloadedLayers,
  needsWeights: true,
  endsAtSecondTerm: true,
  settings: LLAMACPP_SETTINGS,
  // No gate chooses them by name.
  unhonoredParts: ({ modelRefs = [] }) =>
    modelRefs.flatMap(({ name, role }) =>
      role === "lora" ? [`modelRefs ${name} (loaded, but requests select it in their field lora)`] : [],
    ),
  command: (input) => llamaServer(toServerInput(input)),
};

/** Throws MetalbridgeError for settings that the pinned build does not take. */
export function llamaServer(input: LlamaServerInput): PodCommand {
  const { argv, problems } = buildArgv(input, PINNED);
  const [first] = problems;
  if (first !== undefined) {
    const message = problems.map(({ field, why }) => `${field}: ${why}`).join("; ");
    throw new MetalbridgeError(first.code, message);
  }
  return { args: argv, env: [WITHOUT_BACKTRACE] };
}

/** Otherwise the engine starts a debugger after a crash and waits for it. */
export const WITHOUT_BACKTRACE = { name: "GGML_NO_BACKTRACE", value: "1" } as const;

/**
 * At the default verbosity the log only states that no GPU was found; the numbers require `--verbosity 4`. The first line of the
 * server follows the warning: without that line, the beginning of the log is missing.
 */
export function offloadedLayers(log: string): Offloaded | undefined {
  const [, onGPU, all] = /offloaded (\d+)\/(\d+) layers to GPU/.exec(log) ?? [];
  if (onGPU !== undefined && all !== undefined)
    return {
      layers: onGPU === all ? "all" : onGPU === "0" ? "none" : "some",
      count: `${onGPU} of ${all} layers`,
    };
  if (/no usable GPU found/.test(log)) return { layers: "none" };
  return /llama_server: initializing/.test(log) ? { layers: "all" } : undefined;
}

function image(variant: string): string {
  return `ghcr.io/ggml-org/llama.cpp:server${variant}-${PINNED.version}`;
}

/** The settings of one pod, with its own GPUs only. */
export function toServerInput(input: PodInput): LlamaServerInput {
  const { settings, weights, projector, draft, adapters, gpus, model } = input;
  const { chatTemplateFile, slotFolder, apiKeyFile } = input;
  return {
    // A build without a GPU would only warn that it ignores the layers.
    settings: gpus.count === 0 ? { ...settings, gpuLayers: 0 } : settings,
    modelPath: weights?.main ?? "",
    mmprojPath: projector,
    draftPath: draft?.files?.main,
    // Requests apply a named adapter in their field "lora".
    loraAdapters: adapters.map(({ files, scale = 0 }) => ({ path: files?.main ?? "", scale })),
    chatTemplatePath: chatTemplateFile,
    slotSavePath: slotFolder,
    apiKeyFile,
    hosts: [input.address],
    port: input.port,
    aliases: [input.served],
    gguf: model.status?.gguf,
    split: gpus.count > 1 ? splitOf(gpus) : undefined,
  };
}

/** Splits equally if the Model names no parts, because the default of the engine depends on the free memory. */
function splitOf({ count, strategy = "layer", layers }: PodGPUs): LlamaServerInput["split"] & {} {
  const mode = { layer: "layer", pipeline: "layer", row: "row", tensor: "row", none: "none" }[strategy];
  return mode === "none" ? { mode } : { mode, parts: layers ?? Array<number>(count).fill(1) };
}
