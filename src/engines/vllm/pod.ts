/** vLLM as a pod. Arguments are those of 0.25.1. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import { modelNamesOf } from "../../api/inference-service/roles.ts";
import { vllmConfigSchema } from "../../api/inference-service/runtime-configs.ts";
import { argumentsOfConfig, type EngineArguments, SLOTS_ARGUMENT } from "../contract/arguments.ts";
import {
  flagsOf,
  hubWeights,
  type PodCommand,
  type PodFiles,
  type PodInput,
  type PodModel,
  type PodRuntime,
  parallelSizes,
  tokensPerRequest,
} from "../contract/pod.ts";

type Config = NonNullable<InferenceServiceSpec["vllmConfig"]>;

/** Quantizations that have a different name in this version; undefined for those that were removed. */
const QUANTIZATION: Readonly<Record<string, string | undefined>> = {
  nvfp4: "modelopt_fp4",
  squeezellm: undefined,
};
/**
 * Without a timeout vLLM interrupts streams at TERM. Requests that arrive after the drain's last reading, or outlast the drain,
 * get this time; the processes exit about 3 seconds later.
 */
const SHUTDOWN_SECONDS = 10;
const MODES = {
  chat: {},
  embedding: { "--runner": "pooling", "--convert": "embed" },
  rerank: { "--runner": "pooling", "--convert": "classify" },
} as const;

/**
 * Without tensor and pipeline shards, which are checked together, and of which extraArgs may have only one, and without
 * --speculative-config, which has more methods than the setting.
 */
export const VLLM_ARGUMENTS: EngineArguments = {
  settings: {
    ...argumentsOfConfig("vllmConfig", vllmConfigSchema, {
      "--max-model-len": "maxModelLen",
      "--gpu-memory-utilization": "gpuMemoryUtilization",
      "--quantization": "quantization",
      "-q": "quantization",
      "--dtype": "dtype",
      "--max-num-batched-tokens": "maxNumBatchedTokens",
      "--attention-backend": "attentionBackend",
      "--enable-expert-parallel": "enableExpertParallel",
      "--no-enable-expert-parallel": "enableExpertParallel",
      "--cpu-offload-gb": "cpuOffloadGB",
      "--enable-prefix-caching": "enablePrefixCaching",
      "--no-enable-prefix-caching": "enablePrefixCaching",
      "--enable-chunked-prefill": "enableChunkedPrefill",
      "--no-enable-chunked-prefill": "enableChunkedPrefill",
    }),
    "--kv-cache-dtype": {
      setting: "vllmConfig.kvCacheDtype",
      words: { auto: undefined },
      custom: "vllmConfig.kvCacheCustomDtype",
    },
    "--max-num-seqs": SLOTS_ARGUMENT,
  },
};

export const vllmPod: PodRuntime = {
  images: { cuda: "docker.io/vllm/vllm-openai:v0.25.1" },
  port: 8000,
  address: "::",
  healthPath: "/health",
  metrics: {
    path: "/metrics",
    inFlight: ["vllm:num_requests_running", "vllm:num_requests_waiting"],
    load: "vllm:num_requests_running",
    generatedTokens: "vllm:generation_tokens_total",
    firstToken: "vllm:time_to_first_token_seconds",
  },
  apiKey: {
    by: "variable",
    variable: "VLLM_API_KEY",
    isInferenceOpen: true,
    open: "every path outside of /v1, among them /invocations, /score, /rerank, /tokenize and /metrics",
  },
  sharesMemory: true,
  checksModelName: true,
  offloaded: "needsGPU",
  settings: [
    "contextSize",
    "parallelSlots",
    "kvUnified",
    "chatTemplate",
    "extraArgs",
    "vllmConfig",
    "speculativeDecoding",
    "modelRefs.draft",
    "modelRefs.lora",
  ],
  unhonoredParts: unhonoredDrafts,
  command: (input) =>
    vllmServe(input, parallelSizes(input, { tensor: input.spec.vllmConfig?.tensorParallelSize })),
};

/** The command that serves a copy of the model in so many shards. */
export function vllmServe(
  input: PodInput,
  { tensor, pipeline }: { readonly tensor: number; readonly pipeline: number },
): PodCommand {
  const { spec, settings, gpus, served, aliases } = input;
  const config = spec.vllmConfig;
  const { name, revision, env } = hubWeights(input, config?.hfTokenSecretRef);
  return {
    command: ["vllm", "serve"],
    args: [
      name,
      ...flagsOf({
        "--revision": revision,
      }),
      ...["--served-model-name", served, ...aliases],
      ...flagsOf({
        "--host": input.address,
        "--port": input.port,
        ...MODES[settings.mode],
        "--max-model-len": config?.maxModelLen ?? tokensPerRequest(spec),
        "--max-num-seqs": spec.parallelSlots,
        "--tensor-parallel-size": tensor > 1 ? tensor : undefined,
        "--pipeline-parallel-size": pipeline > 1 ? pipeline : undefined,
        "--gpu-memory-utilization": config?.gpuMemoryUtilization ?? gpus.memoryShare,
        "--chat-template": input.chatTemplateFile,
        "--shutdown-timeout": input.hasPinnedImage ? SHUTDOWN_SECONDS : undefined,
      }),
      ...(config === undefined ? [] : configFlags(config)),
      ...draftFlags(input),
      ...adapterFlags(input),
      ...(settings.extraArgs ?? []),
    ],
    env: [
      ...env,
      { name: "VLLM_NO_USAGE_STATS", value: "1" },
      { name: "VLLM_CACHE_ROOT", value: "/tmp/vllm" },
    ],
  };
}

function configFlags(config: Config): string[] {
  const { kvCacheCustomDtype, kvCacheDtype, enablePrefixCaching, enableChunkedPrefill, speculative } = config;
  const cacheType = kvCacheCustomDtype ?? (kvCacheDtype === "auto" ? undefined : kvCacheDtype);
  return [
    ...flagsOf({
      "--quantization": quantizationOf(config),
      "--dtype": config.dtype,
      "--kv-cache-dtype": cacheType,
      "--max-num-batched-tokens": config.maxNumBatchedTokens,
      "--attention-backend": config.attentionBackend,
      "--enable-expert-parallel": config.enableExpertParallel,
      "--cpu-offload-gb": config.cpuOffloadGB,
      "--speculative-config": speculative?.enabled === true ? speculativeConfig(speculative) : undefined,
    }),
    ...toggle("enable-prefix-caching", enablePrefixCaching),
    ...toggle("enable-chunked-prefill", enableChunkedPrefill),
  ];
}

/** Both are on by default, so only an explicit false disables them. */
function toggle(name: string, value: boolean | undefined): string[] {
  return value === undefined ? [] : [value ? `--${name}` : `--no-${name}`];
}

function quantizationOf({ quantization }: Config): string | undefined {
  if (quantization === undefined) return undefined;
  const name = quantization in QUANTIZATION ? QUANTIZATION[quantization] : quantization;
  if (name !== undefined) return name;
  const message = `vllmConfig.quantization: vLLM 0.25.1 has no ${quantization}`;
  throw new MetalbridgeError("SettingNotSupported", message);
}

/** Length of a draft, as vllmConfig.speculative has it by default. */
const DRAFT_TOKENS = 4;

/** The draft model of the service. vLLM derives the type of drafting from the model. */
function draftFlags({ spec, settings: { speculativeDecoding }, draft, weights }: PodInput): string[] {
  if (speculativeDecoding === undefined || draft?.model === undefined || hasOwnDrafts(spec)) return [];
  const { name: model, revision } = companionName(draft, weights);
  const tokens = speculativeDecoding.nDraftMax ?? DRAFT_TOKENS;
  return ["--speculative-config", JSON.stringify({ model, revision, num_speculative_tokens: tokens })];
}

function hasOwnDrafts({ vllmConfig }: InferenceServiceSpec): boolean {
  return vllmConfig?.speculative?.enabled === true;
}

function unhonoredDrafts(spec: InferenceServiceSpec): string[] {
  const { draft } = modelNamesOf(spec);
  if (draft === undefined && spec.speculativeDecoding === undefined) return [];
  if (draft !== undefined && !hasOwnDrafts(spec))
    return spec.speculativeDecoding?.pMin === undefined ? [] : ["speculativeDecoding.pMin"];
  return [
    spec.speculativeDecoding === undefined ? `modelRefs ${draft?.name} (draft)` : "speculativeDecoding",
  ];
}

/** Each adapter is a model of its own name in the API. */
function adapterFlags({ adapters, weights }: PodInput): string[] {
  const named = adapters.flatMap((adapter) =>
    adapter.servedName === undefined ? [] : [`${adapter.servedName}=${companionName(adapter, weights).name}`],
  );
  return named.length === 0 ? [] : ["--enable-lora", "--lora-modules", ...named];
}

function companionName({ model, files }: PodModel, weights: PodFiles | undefined) {
  if (files !== undefined) return { name: files.folder, revision: undefined };
  if (model === undefined) throw new Error("a companion without a Model");
  if (weights === undefined) return hubWeights({ model });
  const message = `Model ${model.metadata.name} is not on a volume, and an engine whose weights are on one downloads nothing`;
  throw new MetalbridgeError("WeightsNotCached", message);
}

/** Without a draft model, vLLM drafts from the preceding text. */
function speculativeConfig({ model, numSpeculativeTokens }: NonNullable<Config["speculative"]>): string {
  const source = model === undefined ? { method: "ngram", prompt_lookup_max: 4 } : { model };
  return JSON.stringify({ ...source, num_speculative_tokens: numSpeculativeTokens });
}
