/** Hugging Face's Text Generation Inference, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { tgiPod } from "./pod.ts";

export const tgi: EngineDescription = {
  runtime: "tgi",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm", "intel"],
  isSharedDaemon: false,
  pod: tgiPod,
  traces: { processes: /^text-generation/ },
};
