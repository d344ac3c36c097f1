/**
 * Names of all runtimes; `src/engines/registry.ts` describes each. This file has no schemas, because error texts need the names
 * in processes that do not load zod.
 */

export const RUNTIMES = [
  "llamacpp",
  "omlx",
  "ollama",
  "vllm",
  "tgi",
  "sglang",
  "tensorrt-llm",
  "personaplex",
  "generic",
] as const;
export type Runtime = (typeof RUNTIMES)[number];

/** Runtimes that can serve one copy of a model over several pods. */
export const GROUP_RUNTIMES = ["llamacpp", "vllm", "sglang", "tensorrt-llm"] as const satisfies Runtime[];

/** Engines of hosts, with the command that installs each. Their `extraArgs` are checked against an allow-list. */
export const HOST_ENGINE_INSTALLS = {
  llamacpp: "brew install llama.cpp",
  omlx: "brew tap jundot/omlx https://github.com/jundot/omlx && brew install omlx",
  ollama: "brew install ollama",
} as const satisfies Partial<Record<Runtime, string>>;

/** For descriptions: the runtime that is chosen if a service names none. */
export const RUNTIMES_BY_FORMAT =
  "gguf: llamacpp, else ollama; mlx: omlx, else generic with mlx_lm.server; ollama: ollama";

/** For descriptions: programs that store models on a host. */
export const MODEL_KEEPERS = "ollama, omlx, lmstudio, huggingface, …";
