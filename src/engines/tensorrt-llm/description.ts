/** NVIDIA's TensorRT-LLM, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { tensorrtLLMGroup } from "./group.ts";
import { tensorrtLLMPod } from "./pod.ts";

export const tensorrtLLM: EngineDescription = {
  runtime: "tensorrt-llm",
  formats: ["safetensors"],
  accelerators: ["cuda"],
  apiPaths: ["/v1/chat/completions", "/v1/completions", "/v1/models"],
  isSharedDaemon: false,
  modes: ["chat"],
  pod: tensorrtLLMPod,
  group: tensorrtLLMGroup,
};
