/** SGLang, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { sglangGroup } from "./group.ts";
import { sglangPod } from "./pod.ts";

export const sglang: EngineDescription = {
  runtime: "sglang",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm"],
  apiPaths: ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/generate", "/v1/models"],
  isSharedDaemon: false,
  modes: ["chat", "embedding"],
  pod: sglangPod,
  group: sglangGroup,
  traces: { processes: /^sglang/ },
};
