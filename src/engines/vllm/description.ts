/** vLLM, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { vllmPod } from "./pod.ts";

export const vllm: EngineDescription = {
  runtime: "vllm",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm", "intel", "cpu"],
  isSharedDaemon: false,
  pod: vllmPod,
  traces: { programs: ["vllm"], processes: /^(vllm|VLLM::)/, formula: "vllm", units: "vllm*" },
};
