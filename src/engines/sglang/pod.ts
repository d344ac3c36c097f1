/** SGLang as a pod. Arguments are those of 0.5.15. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import { requestedNames } from "../../api/inference-service/model-names.ts";
import { argumentsOfConfig } from "../contract/arguments.ts";
import {
  flagsOf,
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

/** Without the numbers of shards, as for vLLM. */
export const SGLANG_ARGUMENTS = argumentsOfConfig(
  "sglangConfig",
  "context-length max-running-requests mem-fraction-static quantization dtype kv-cache-dtype max-total-tokens chunked-prefill-size max-prefill-tokens schedule-policy attention-backend",
);

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
      ...(config === undefined ? [] : configFlags(config)),
      ...(settings.extraArgs ?? []),
    ],
    env,
  };
}

function configFlags(config: Config): string[] {
  return flagsOf({
    "--dp-size": config.dataParallelSize,
    "--ep-size": config.expertParallelSize,
    "--quantization": config.quantization,
    "--dtype": config.dtype,
    "--kv-cache-dtype": config.kvCacheDtype,
    "--max-total-tokens": config.maxTotalTokens,
    "--chunked-prefill-size": config.chunkedPrefillSize,
    "--max-prefill-tokens": config.maxPrefillTokens,
    "--schedule-policy": config.schedulePolicy,
    "--attention-backend": config.attentionBackend,
    "--sampling-backend": config.samplingBackend,
    "--disable-radix-cache": config.disableRadixCache,
    "--disable-cuda-graph": config.disableCudaGraph,
    "--enable-torch-compile": config.enableTorchCompile,
    "--enable-mixed-chunk": config.enableMixedChunk,
    "--enable-dp-attention": config.enableDPAttention,
    "--trust-remote-code": config.trustRemoteCode,
    "--reasoning-parser": config.reasoningParser,
    "--tool-call-parser": config.toolCallParser,
    "--speculative-algorithm": config.speculativeAlgorithm,
    "--speculative-draft-model-path": config.speculativeDraftModelPath,
    "--speculative-num-steps": config.speculativeNumSteps,
    "--speculative-eagle-topk": config.speculativeEagleTopk,
    "--speculative-num-draft-tokens": config.speculativeNumDraftTokens,
    "--cpu-offload-gb": config.cpuOffloadGB,
  });
}
