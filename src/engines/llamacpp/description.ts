/** llama-server: one process per replica, on hosts and in pods. */
import { HOST_ENGINE_INSTALLS } from "../../api/fields/runtimes.ts";
import type { EngineDescription } from "../contract/description.ts";
import { llamacppClaims } from "./claims.ts";
import { llamacppGroup } from "./group.ts";
import { llamacppPod } from "./pod.ts";
import { LLAMACPP_SETTINGS } from "./settings.ts";

export const llamacpp: EngineDescription = {
  runtime: "llamacpp",
  formats: ["gguf"],
  accelerators: ["metal", "cuda", "rocm", "vulkan", "intel", "cpu"],
  apiPaths: [
    ...[
      "chat/completions",
      "chat/completions/input_tokens",
      "completions",
      "responses",
      "responses/input_tokens",
      "embeddings",
      "rerank",
      "reranking",
      "audio/transcriptions",
    ].flatMap((path) => [`/v1/${path}`, `/${path}`]),
    ...["/v1/messages", "/v1/messages/count_tokens"],
    ...["/completion", "/infill", "/embedding", "/tokenize", "/detokenize", "/apply-template"],
    "/v1/models",
  ],
  isSharedDaemon: false,
  checksApiKey: true,
  asksGateForKey: true,
  host: {
    install: HOST_ENGINE_INSTALLS.llamacpp,
    settings: LLAMACPP_SETTINGS,
    claims: llamacppClaims,
    reportsRequests: true,
    benchmarkTool: "llama-bench",
    knownBad: [
      {
        below: "b10114",
        why: "it has no --load-mode; the flags for it have changed since (ggml-org/llama.cpp#20834)",
      },
    ],
  },
  pod: llamacppPod,
  group: llamacppGroup,
  traces: {
    programs: ["llama-server"],
    processes: /^llama-server$/,
    modelFolders: [".cache/llama.cpp", "Library/Caches/llama.cpp"],
    formula: "llama.cpp",
    units: "llama*",
  },
};
