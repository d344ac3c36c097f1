/** SGLang, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { sglangPod } from "./pod.ts";

export const sglang: EngineDescription = {
  runtime: "sglang",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm"],
  isSharedDaemon: false,
  pod: sglangPod,
  traces: { processes: /^sglang/ },
};
