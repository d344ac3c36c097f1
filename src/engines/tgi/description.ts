/** Hugging Face's Text Generation Inference, in pods. */

import { tgiConfigSchema } from "../../api/inference-service/runtime-configs.ts";
import { argumentsOfConfig, SLOTS_ARGUMENT } from "../contract/arguments.ts";
import type { EngineDescription } from "../contract/description.ts";
import { flagsOf, hubWeights, type PodRuntime, requireChatMode, tokensPerRequest } from "../contract/pod.ts";

/** Text Generation Inference as a pod. Arguments are those of 3.3. */
const tgiPod: PodRuntime = {
  images: { cuda: "ghcr.io/huggingface/text-generation-inference:3.3.7" },
  // The default port is 80, which not every user other than root may open.
  port: 8080,
  address: "::",
  healthPath: "/health",
  metrics: {
    path: "/metrics",
    inFlight: ["tgi_batch_current_size", "tgi_queue_size"],
    load: "tgi_queue_size",
    generatedTokens: "tgi_request_generated_tokens_sum",
  },
  apiKey: {
    by: "variable",
    variable: "API_KEY",
    isInArguments: true,
    open: "/health, /info, /ping and /metrics",
  },
  sharesMemory: true,
  settings: ["contextSize", "parallelSlots", "kvUnified", "extraArgs", "tgiConfig"],
  command: (input) => {
    requireChatMode(input, "tgi");
    const { spec, settings, gpus } = input;
    const config = spec.tgiConfig;
    const { name, revision, env } = hubWeights(input, config?.hfTokenSecretRef);
    return {
      args: [
        ...flagsOf({
          "--model-id": name,
          "--revision": revision,
          "--hostname": input.address,
          "--port": input.port,
          "--num-shard": gpus.count > 1 ? gpus.count : undefined,
          "--max-input-tokens": config?.maxInputLength,
          "--max-total-tokens": config?.maxTotalTokens ?? tokensPerRequest(spec),
          "--max-batch-size": spec.parallelSlots,
          "--quantize": config?.quantize,
          "--dtype": config?.dtype,
          "--cuda-memory-fraction": gpus.memoryShare,
          "--huggingface-hub-cache": "/tmp/huggingface",
          "--usage-stats": "off",
        }),
        ...(settings.extraArgs ?? []),
      ],
      env,
    };
  },
};

export const tgi: EngineDescription = {
  runtime: "tgi",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm", "intel"],
  apiPaths: ["/v1/chat/completions", "/v1/completions", "/generate", "/generate_stream", "/v1/models"],
  isSharedDaemon: false,
  modes: ["chat"],
  arguments: {
    settings: {
      ...argumentsOfConfig("tgiConfig", tgiConfigSchema, {
        "--max-input-tokens": "maxInputLength",
        "--max-input-length": "maxInputLength",
        "--max-total-tokens": "maxTotalTokens",
        "--quantize": "quantize",
        "--dtype": "dtype",
      }),
      // --max-concurrent-requests includes queued requests, which no setting limits.
      "--max-batch-size": SLOTS_ARGUMENT,
    },
  },
  pod: tgiPod,
  traces: { processes: /^text-generation/ },
};
