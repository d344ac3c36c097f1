/** Resolves the name of weights from a user: a source, a repository of the Hub, or the name of a catalog model. */

import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { matchName, nearestNames } from "./match.ts";
import type { Catalog, CatalogRecord } from "./record.ts";

export interface WeightsRef {
  readonly source: string;
  readonly quantization?: string | undefined;
  /** Set if the catalog lists the model for embeddings only. */
  readonly mode?: "embedding" | undefined;
  /** Name of the catalog record, if the weights are from the catalog. */
  readonly model?: string | undefined;
}

export interface WeightsOptions {
  /** Formats that the runtime loads. Defaults to those that hosts serve. */
  readonly formats?: readonly string[] | undefined;
  readonly quantization?: string | undefined;
}

const HOST_FORMATS: readonly string[] = ["gguf", "mlx"];

/** True for a URL or an absolute path, which cannot be the name of a Model. */
export function isAddress(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9+.-]*:\/\//.test(text) || text.startsWith("/");
}

/**
 * Throws CatalogModelUnknown, SourceInvalid or CatalogModelWithoutFiles. A name with an owner always means that repository:
 * `someone/Qwen3-8B` does not match Qwen/Qwen3-8B.
 */
export function resolveWeights(
  { records }: Pick<Catalog, "records">,
  given: string,
  requested: WeightsOptions,
): WeightsRef {
  const { text, quantization } = readHubName(given);
  const options = { ...requested, quantization: requested.quantization ?? quantization };
  if (isAddress(text)) return { source: text, quantization: options.quantization };
  if (/^\.{1,2}\//.test(text) || /^([^/:]+\/)?[^/:]+\.gguf$/i.test(text)) throw notAbsolute(text);
  if (options.formats?.includes("ollama") === true && /^[^/:]+:[^/:]+$/.test(text))
    return { source: `ollama://${text}` };
  if (text.includes("/")) {
    const record = records.find(({ name }) => name.toLowerCase() === text.toLowerCase());
    return record === undefined
      ? { source: `hf://${text}`, quantization: options.quantization }
      : weightsOfRecord(record, options);
  }
  return weightsOfRecord(recordOf(records, text), options);
}

/** The names that llama.cpp and Ollama take: `hf.co/org/repo`, `org/repo:Q4_K_M`. A source of a Model has no quantization. */
function readHubName(given: string): { readonly text: string; readonly quantization?: string | undefined } {
  const plain = isAddress(given) ? given : given.replace(/^(hf\.co|huggingface\.co)\/(?=[^/]+\/)/i, "");
  const [, text, quantization] = /^((?:hf:\/\/)?[^/:@]+\/[^/:@]+):([\w.-]+)$/i.exec(plain) ?? [];
  return text === undefined ? { text: plain } : { text, quantization };
}

/** Also matches the spelling of Ollama: `llama3.1:8b` for Llama-3.1-8B. */
function recordOf(records: readonly CatalogRecord[], text: string): CatalogRecord {
  const spellings = [text, text.replace(/^([a-z]+)(\d+(\.\d+)?)(?=[:-]|$)/i, "$1-$2")];
  const matches = spellings.map((spelling) => matchName(records, spelling));
  const match = matches.find(({ at }) => at === "one") ?? matches.find(({ at }) => at === "several");
  if (match?.at === "one") return match.record;
  const shown = text.slice(0, 128);
  if (match?.at === "several") {
    const names = match.records.map(({ name }) => name);
    throw unknown(`${shown} can mean several models of the catalog`, `name one of: ${names.join(", ")}`);
  }
  const nearest = [...new Set(spellings.flatMap((spelling) => nearestNames(records, spelling)))];
  throw unknown(
    `the catalog has no model ${shown}`,
    nearest.length === 0
      ? "search the catalog, or give a source: hf://org/repo, https://…, ollama://name:tag"
      : `did you mean ${nearest.slice(0, 5).join(", ")}?`,
  );
}

/** Prefers the safetensors of the publisher if the runtime loads them; else GGUF or MLX. */
function weightsOfRecord(
  record: CatalogRecord,
  { formats = HOST_FORMATS, quantization }: WeightsOptions,
): WeightsRef {
  const [gguf] = record.gguf_sources;
  const [mlx] = record.mlx_sources;
  const found = {
    model: record.name,
    mode: record.use_case === "embedding" ? ("embedding" as const) : undefined,
  };
  if (formats.includes("safetensors")) return { ...found, source: `hf://${record.name}`, quantization };
  if (gguf !== undefined && formats.includes("gguf"))
    return { ...found, source: `hf://${gguf.repo}`, quantization: quantization ?? record.quantization };
  if (mlx !== undefined && formats.includes("mlx")) return { ...found, source: `hf://${mlx}` };
  const usable = ["GGUF", "MLX"].filter((format) => formats.includes(format.toLowerCase()));
  throw new MetalbridgeError(
    "CatalogModelWithoutFiles",
    `the catalog names no ${usable.join(" or ")} files of ${record.name}`,
    remedyOf("CatalogModelWithoutFiles", { model: record.name }),
  );
}

function unknown(message: string, summary: string): MetalbridgeError {
  return new MetalbridgeError("CatalogModelUnknown", message, {
    summary,
    command: "metalbridge catalog search <words>",
  });
}

function notAbsolute(text: string): MetalbridgeError {
  return new MetalbridgeError("SourceInvalid", `${text} is a relative path`, {
    summary:
      "the hosts read the file, not this command: give its absolute path on them, or hf://org/repo/file.gguf",
  });
}
