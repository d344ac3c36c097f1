/**
 * Every runtime by its name; `src/engines/registry.ts` describes each. Without schemas, because texts of errors need the names
 * in processes that load none.
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

/** Engines of hosts, with the command that installs each. Their `extraArgs` are held to a list of allowed ones. */
export const HOST_ENGINE_INSTALLS = {
  llamacpp: "brew install llama.cpp",
  omlx: "brew tap jundot/omlx https://github.com/jundot/omlx && brew install omlx",
  ollama: "brew install ollama",
} as const satisfies Partial<Record<Runtime, string>>;

/** For descriptions: what is chosen where a service names no runtime. */
export const RUNTIMES_BY_FORMAT =
  "gguf: llamacpp, else ollama; mlx: omlx, else generic with mlx_lm.server; ollama: ollama";

/** For descriptions: programs that keep models on a host. */
export const MODEL_KEEPERS = "ollama, omlx, lmstudio, huggingface, …";
