/** vLLM as a pod. Arguments are those of 0.25.1. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import { flagsOf, hubWeights, type PodRuntime, parallelSizes, tokensPerRequest } from "../contract/pod.ts";

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
  offloaded: "needsGPU",
  settings: ["contextSize", "parallelSlots", "kvUnified", "chatTemplate", "extraArgs", "vllmConfig"],
  command: (input) => {
    const { spec, settings, gpus, served } = input;
    const config = spec.vllmConfig;
    const { name, revision, env } = hubWeights(input, config?.hfTokenSecretRef);
    const { tensor, pipeline } = parallelSizes(input, { tensor: config?.tensorParallelSize });
    return {
      command: ["vllm", "serve"],
      args: [
        name,
        ...flagsOf({
          "--revision": revision,
          "--served-model-name": served,
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
        ...(settings.extraArgs ?? []),
      ],
      env: [
        ...env,
        { name: "VLLM_NO_USAGE_STATS", value: "1" },
        { name: "VLLM_CACHE_ROOT", value: "/tmp/vllm" },
      ],
    };
  },
};

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

/** Without a draft model, vLLM drafts from the preceding text. */
function speculativeConfig({ model, numSpeculativeTokens }: NonNullable<Config["speculative"]>): string {
  const source = model === undefined ? { method: "ngram", prompt_lookup_max: 4 } : { model };
  return JSON.stringify({ ...source, num_speculative_tokens: numSpeculativeTokens });
}
