/** SGLang as a pod. Arguments are those of 0.5.15. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import { requestedNames } from "../../api/inference-service/model-names.ts";
import { sglangConfigSchema } from "../../api/inference-service/runtime-configs.ts";
import { argumentsOfConfig, type EngineArguments } from "../contract/arguments.ts";
import {
  flagsOf,
  flagsOfFields,
  hubWeights,
  type PodCommand,
  type PodInput,
  type PodRuntime,
  parallelSizes,
  tokensPerRequest,
} from "../contract/pod.ts";

type Config = NonNullable<InferenceServiceSpec["sglangConfig"]>;

const SERVER = "sglang.launch_server";
const KEY_VARIABLE = "SGLANG_API_KEY";
/**
 * SGLang accepts the key as an argument only, which all processes of a node can read. An entry that is added to sys.argv stays
 * inside the process.
 */
const SERVER_WITH_KEY = `import os, runpy, sys
sys.argv.append("--api-key=" + os.environ["${KEY_VARIABLE}"])
runpy.run_module("${SERVER}", run_name="__main__", alter_sys=True)
`;

/** The arguments of fields that determine nothing else, in the order of the command line. */
const FIELDS = {
  "--dp-size": "dataParallelSize",
  "--ep-size": "expertParallelSize",
  "--quantization": "quantization",
  "--dtype": "dtype",
  "--kv-cache-dtype": "kvCacheDtype",
  "--max-total-tokens": "maxTotalTokens",
  "--chunked-prefill-size": "chunkedPrefillSize",
  "--max-prefill-tokens": "maxPrefillTokens",
  "--schedule-policy": "schedulePolicy",
  "--attention-backend": "attentionBackend",
  "--sampling-backend": "samplingBackend",
  "--disable-radix-cache": "disableRadixCache",
  "--disable-cuda-graph": "disableCudaGraph",
  "--enable-torch-compile": "enableTorchCompile",
  "--enable-mixed-chunk": "enableMixedChunk",
  "--enable-dp-attention": "enableDPAttention",
  "--trust-remote-code": "trustRemoteCode",
  "--reasoning-parser": "reasoningParser",
  "--tool-call-parser": "toolCallParser",
  "--speculative-algorithm": "speculativeAlgorithm",
  "--speculative-draft-model-path": "speculativeDraftModelPath",
  "--speculative-num-steps": "speculativeNumSteps",
  "--speculative-eagle-topk": "speculativeEagleTopk",
  "--speculative-num-draft-tokens": "speculativeNumDraftTokens",
  "--cpu-offload-gb": "cpuOffloadGB",
} as const satisfies Readonly<Record<string, keyof Config>>;

/** Without tensor and pipeline shards, as for vLLM. */
export const SGLANG_ARGUMENTS: EngineArguments = {
  settings: {
    ...argumentsOfConfig("sglangConfig", sglangConfigSchema, {
      ...FIELDS,
      "--data-parallel-size": "dataParallelSize",
      "--expert-parallel-size": "expertParallelSize",
      "--ep": "expertParallelSize",
      "--speculative-draft-model": "speculativeDraftModelPath",
      "--context-length": "contextLength",
      "--max-running-requests": "maxRunningRequests",
      "--mem-fraction-static": "memFractionStatic",
    }),
    "--chat-template": { setting: "sglangConfig.chatTemplate", unless: "chatTemplate" },
  },
};

export const sglangPod: PodRuntime = {
  images: {
    cuda: "docker.io/lmsysorg/sglang:v0.5.15.post1-cu129",
    rocm: "docker.io/lmsysorg/sglang:v0.5.15-rocm720-mi30x",
  },
  port: 30_000,
  // The server would listen on "::" without IPv4.
  address: "0.0.0.0",
  healthPath: "/health",
  metrics: {
    path: "/metrics",
    inFlight: ["sglang:num_running_reqs", "sglang:num_queue_reqs"],
    load: "sglang:num_running_reqs",
    generatedTokens: "sglang:generation_tokens_total",
    firstToken: "sglang:time_to_first_token_seconds",
  },
  apiKey: { by: "variable", variable: KEY_VARIABLE, open: "/health, /metrics and OPTIONS requests" },
  sharesMemory: true,
  offloaded: "needsGPU",
  settings: ["contextSize", "parallelSlots", "kvUnified", "chatTemplate", "extraArgs", "sglangConfig"],
  // SGLang ignores the model name of a request, but takes the part after a colon for the name of a LoRA adapter.
  unhonoredParts: (spec) =>
    requestedNames(spec).flatMap(({ name }) => (name.includes(":") ? `endpoint.modelNames ${name}` : [])),
  command: (input) => sglangServer(input, parallelSizes(input, givenSizes(input))),
};

/** Numbers of shards that the service names. */
export function givenSizes({ spec: { sglangConfig: config } }: Pick<PodInput, "spec">) {
  return { tensor: config?.tensorParallelSize, pipeline: config?.pipelineParallelSize };
}

/** The command that serves a copy of the model in so many shards. */
export function sglangServer(
  input: PodInput,
  { tensor, pipeline }: { readonly tensor: number; readonly pipeline: number },
): PodCommand {
  const { spec, settings, gpus, served } = input;
  const config = spec.sglangConfig;
  if (settings.mode === "rerank")
    throw new MetalbridgeError("SettingNotSupported", "runtime sglang does not serve spec.mode rerank");
  const { name, revision, env } = hubWeights(input, config?.hfTokenSecretRef);
  return {
    command: spec.auth === undefined ? ["python3", "-m", SERVER] : ["python3", "-c", SERVER_WITH_KEY],
    args: [
      ...flagsOf({
        "--model-path": name,
        "--revision": revision,
        "--served-model-name": served,
        "--host": input.address,
        "--port": input.port,
        "--enable-metrics": true,
        "--is-embedding": settings.mode === "embedding",
        "--context-length": config?.contextLength ?? tokensPerRequest(spec),
        "--max-running-requests": config?.maxRunningRequests ?? spec.parallelSlots,
        "--tp-size": tensor > 1 ? tensor : undefined,
        "--pp-size": pipeline > 1 ? pipeline : undefined,
        "--mem-fraction-static": config?.memFractionStatic ?? gpus.memoryShare,
        "--chat-template": input.chatTemplateFile ?? config?.chatTemplate,
      }),
      ...flagsOfFields(config, FIELDS),
      ...(settings.extraArgs ?? []),
    ],
    env,
  };
}
