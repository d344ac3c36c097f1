/** Which weights a user means: a source as it stands, a repository of the Hub, or a model of the catalog by a name people use. */

import { matchName, nearestNames } from "../../fitness/catalog/match.ts";
import type { Catalog, CatalogRecord } from "../../fitness/catalog/record.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { ENGINES } from "../../src/engines/registry.ts";

export interface WeightsRef {
  readonly source: string;
  readonly quantization?: string | undefined;
  /** `embedding` where the catalog says that the model is for nothing else. */
  readonly mode?: "embedding" | undefined;
  /** The catalog's record, where that is how it was found. */
  readonly model?: string | undefined;
}

export interface WeightsOptions {
  readonly runtime?: string | undefined;
  readonly quantization?: string | undefined;
}

/** True for what names no Model of the cluster: a URL or a path. */
export function isAddress(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9+.-]*:\/\//.test(text) || text.startsWith("/");
}

/**
 * Throws CatalogModelUnknown, SourceInvalid or CatalogModelWithoutFiles. A name with an owner is only ever that
 * repository: `someone/Qwen3-8B` is not Qwen's.
 */
export function weightsOf({ records }: Catalog, text: string, wish: WeightsOptions): WeightsRef {
  if (isAddress(text)) return { source: text, quantization: wish.quantization };
  if (/^\.{1,2}\//.test(text) || /^([^/:]+\/)?[^/:]+\.gguf$/i.test(text)) throw notAbsolute(text);
  if (formatsOf(wish.runtime).includes("ollama") && /^[^/:]+:[^/:]+$/.test(text))
    return { source: `ollama://${text}` };
  if (text.includes("/")) {
    const own = records.find(({ name }) => name.toLowerCase() === text.toLowerCase());
    return own === undefined
      ? { source: `hf://${text}`, quantization: wish.quantization }
      : weightsOfRecord(own, wish);
  }
  return weightsOfRecord(recordOf(records, text), wish);
}

/** Ollama writes `llama3.1:8b` where others write Llama-3.1-8B. */
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
      ? "look for it, or give a source: hf://org/repo, https://…, ollama://name:tag"
      : `did you mean ${nearest.slice(0, 5).join(", ")}?`,
  );
}

/** Formats of weights that the runtime loads; without one, those that hosts serve. */
function formatsOf(runtime: string | undefined): readonly string[] {
  if (runtime === undefined) return ["gguf", "mlx"];
  return ENGINES.find((engine) => engine.runtime === runtime)?.formats ?? ["safetensors"];
}

/** The publisher's own files, of safetensors, where the runtime loads them; else GGUF or MLX. */
function weightsOfRecord(record: CatalogRecord, { runtime, quantization }: WeightsOptions): WeightsRef {
  const [gguf] = record.gguf_sources;
  const [mlx] = record.mlx_sources;
  const found = {
    model: record.name,
    mode: record.use_case === "embedding" ? ("embedding" as const) : undefined,
  };
  const formats = formatsOf(runtime);
  if (formats.includes("safetensors")) return { ...found, source: `hf://${record.name}`, quantization };
  if (gguf !== undefined && formats.includes("gguf"))
    return { ...found, source: `hf://${gguf.repo}`, quantization: quantization ?? record.quantization };
  if (mlx !== undefined && formats.includes("mlx")) return { ...found, source: `hf://${mlx}` };
  const wanted = ["GGUF", "MLX"].filter((format) => formats.includes(format.toLowerCase()));
  throw new MetalbridgeError(
    "CatalogModelWithoutFiles",
    `the catalog names no ${wanted.join(" or ")} files of ${record.name}`,
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
