/** Settings of a service in Ollama: some apply to a model, the others to the server. Pure. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import { MetalbridgeError } from "../../api/errors.ts";
import { contextOfRequest, ownModelName, serverNameOf } from "../contract/shared-daemon.ts";

/** Fields of InferenceService.spec that Ollama honors; SpecHonored lists the others. */
export const OLLAMA_SETTINGS = [
  "contextSize",
  "parallelSlots",
  "flashAttention",
  "cacheTypeK",
  "cacheTypeV",
  "batchSize",
  "gpuLayers",
] as const satisfies readonly (keyof EngineSettings)[];

/** Environment of every server that we start: models stay loaded and on disk, and nothing runs in Ollama's cloud. */
export const SERVER_ENVIRONMENT = {
  OLLAMA_KEEP_ALIVE: "-1",
  OLLAMA_NOPRUNE: "1",
  OLLAMA_NO_CLOUD: "1",
  GIN_MODE: "release",
} as const;

const CACHE_TYPES = ["f16", "q8_0", "q4_0"];

export interface OllamaSettings {
  /** Parameters of a model in /api/create. A request with other values makes Ollama reload the model. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Environment of the server, for all its models. */
  readonly environment: Readonly<Record<string, string>>;
}

/** Throws MetalbridgeError for unsupported settings that must not be ignored. */
export function ollamaSettings(
  settings: EngineSettings,
  trained: { readonly contextLength?: number | undefined } = {},
): OllamaSettings {
  if (settings.mode === "rerank") {
    const message = "Ollama has no rerank API";
    throw new MetalbridgeError("SettingNotSupported", message, { summary: "set spec.runtime to llamacpp" });
  }
  const { parallelSlots = 1, batchSize, gpuLayers, flashAttention } = settings;
  const cacheType = cacheTypeOf(settings);
  const isAttentionFlash = flashAttention ?? (cacheType === undefined ? undefined : true);
  return {
    parameters: {
      num_ctx: contextOfRequest(settings, trained),
      ...(batchSize === undefined ? {} : { num_batch: batchSize }),
      ...(gpuLayers === undefined || gpuLayers < 0 ? {} : { num_gpu: gpuLayers }),
    },
    environment: {
      OLLAMA_NUM_PARALLEL: String(parallelSlots),
      ...(isAttentionFlash === undefined ? {} : { OLLAMA_FLASH_ATTENTION: isAttentionFlash ? "1" : "0" }),
      ...(cacheType === undefined ? {} : { OLLAMA_KV_CACHE_TYPE: cacheType }),
    },
  };
}

/**
 * Ollama loads weights once per server, with one set of options. Services with different options get separate servers, because
 * otherwise each request of one would reload the weights of the other.
 */
export function serverName({ parameters, environment }: OllamaSettings): string {
  return serverNameOf("ollama", [parameters, environment]);
}

/** Name of the model in Ollama; `weights` identifies the files. It always has a tag, so that names compare exactly. */
export function modelName(weights: string, { parameters }: OllamaSettings): string {
  return `${ownModelName([weights, parameters])}:latest`;
}

/** The common type of keys and values; a quantized type requires flash attention. */
function cacheTypeOf({ cacheTypeK: keys, cacheTypeV: values, flashAttention }: EngineSettings) {
  const type = keys ?? values;
  if (type === undefined) return undefined;
  if ((keys ?? "f16") !== (values ?? "f16") || !CACHE_TYPES.includes(type)) {
    const message = `Ollama has one type for keys and values of the KV cache, and knows ${CACHE_TYPES.join(", ")}`;
    throw new MetalbridgeError("SettingNotSupported", message, {
      summary: "set cacheTypeK and cacheTypeV to the same of these",
    });
  }
  if (type !== "f16" && flashAttention === false) {
    const message = `${type} needs flash attention, which flashAttention: false turns off`;
    throw new MetalbridgeError("CacheTypeMismatch", message);
  }
  return type;
}
