/** TensorRT-LLM's own server as a pod. Arguments are those of 1.2. */
import {
  flagsOf,
  hubWeights,
  type PodCommand,
  type PodInput,
  type PodRuntime,
  parallelSizes,
  requireChatMode,
  tokensPerRequest,
} from "../contract/pod.ts";

export const tensorrtLLMPod: PodRuntime = {
  images: { cuda: "nvcr.io/nvidia/tensorrt-llm/release:1.2.1" },
  port: 8000,
  // The server supports IPv4 only.
  address: "0.0.0.0",
  healthPath: "/health",
  sharesMemory: true,
  offloaded: "needsGPU",
  settings: ["contextSize", "parallelSlots", "kvUnified", "chatTemplate", "extraArgs"],
  command: (input) => tensorrtServe(input, parallelSizes(input)),
};

/** The command that serves a copy of the model in so many shards. */
export function tensorrtServe(
  input: PodInput,
  { tensor, pipeline }: { readonly tensor: number; readonly pipeline: number },
): PodCommand & { readonly command: readonly string[] } {
  requireChatMode(input, "tensorrt-llm");
  const { spec, settings, gpus } = input;
  const { name, revision, env } = hubWeights(input);
  return {
    command: ["trtllm-serve", "serve"],
    args: [
      name,
      ...flagsOf({
        "--revision": revision,
        "--host": input.address,
        "--port": input.port,
        "--max_seq_len": tokensPerRequest(spec),
        "--max_batch_size": spec.parallelSlots,
        "--tensor_parallel_size": tensor > 1 ? tensor : undefined,
        "--pipeline_parallel_size": pipeline > 1 ? pipeline : undefined,
        "--free_gpu_memory_fraction": gpus.memoryShare,
        "--chat_template": input.chatTemplateFile,
      }),
      ...(settings.extraArgs ?? []),
    ],
    env,
  };
}
