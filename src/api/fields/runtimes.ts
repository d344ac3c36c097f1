/** Every runtime by its name: the only file of the API that names single ones. `src/engines/registry.ts` describes each. */
import { z } from "zod";

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
export const runtimeSchema = z.enum(RUNTIMES);
export type Runtime = z.output<typeof runtimeSchema>;

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

/** Settings that a single engine has. */
export const singleEngineFields = {
  turboQuantBits: z
    .literal([3, 6, 8])
    .describe("Bits per element of oMLX's quantized KV cache: 3, 6 or 8. Absent: not quantized.")
    .optional(),
  pagedSSDCacheDir: z
    .string()
    .min(1)
    .max(1024)
    .describe("Folder on the host in which oMLX pages KV blocks to disk.")
    .optional(),
  hotCacheMaxSize: z
    .string()
    .min(1)
    .max(64)
    .describe("Maximum memory for oMLX's KV blocks, for example 8GB.")
    .optional(),
  pagedSSDCacheMaxSize: z
    .string()
    .min(1)
    .max(64)
    .describe("Maximum disk space of oMLX's paged cache, for example 100GB.")
    .optional(),
} as const;
