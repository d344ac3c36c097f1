/** vLLM, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { vllmGroup } from "./group.ts";
import { vllmPod } from "./pod.ts";

export const vllm: EngineDescription = {
  runtime: "vllm",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm", "intel", "cpu"],
  apiPaths: [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/v1/rerank",
    "/v2/rerank",
    "/rerank",
    "/v1/score",
    "/score",
    "/classify",
    "/pooling",
    "/tokenize",
    "/detokenize",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/models",
  ],
  isSharedDaemon: false,
  pod: vllmPod,
  group: vllmGroup,
  traces: { programs: ["vllm"], processes: /^(vllm|VLLM::)/, formula: "vllm", units: "vllm*" },
};
