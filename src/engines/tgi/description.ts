/** Hugging Face's Text Generation Inference, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { tgiPod } from "./pod.ts";

export const tgi: EngineDescription = {
  runtime: "tgi",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm", "intel"],
  apiPaths: ["/v1/chat/completions", "/v1/completions", "/generate", "/generate_stream", "/v1/models"],
  isSharedDaemon: false,
  modes: ["chat"],
  pod: tgiPod,
  traces: { processes: /^text-generation/ },
};
