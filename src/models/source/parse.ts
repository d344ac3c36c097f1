/** Reads `spec.source` of a Model, and answers for any kind of source. */

import { MetalbridgeError } from "../../api/errors.ts";
import type { ModelFormat } from "../../api/fields/shared.ts";
import { truncate } from "../../util/text.ts";
import { parsePath } from "./kinds/file.ts";
import { parseBareRepository } from "./kinds/hugging-face.ts";
import { InvalidSource } from "./kinds/kind.ts";
import { kindOf, type ModelSource, type RemoteSource, SOURCE_KINDS } from "./kinds/registry.ts";

const MAX_LENGTH = 2048;
/** Blanks, control characters, lone surrogates, and what changes the direction of the text around it. */
const UNWRITABLE = /[\s\p{Cc}\p{Cs}\p{Bidi_Control}\p{Noncharacter_Code_Point}]/u;

/** The source as data; throws `SourceInvalid` with what is wrong with it and how it is written. */
export function parseSource(text: string): ModelSource {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof InvalidSource)) throw error;
    const { message, form, shown = text } = error;
    throw new MetalbridgeError("SourceInvalid", `${JSON.stringify(shown)} is not a source: ${message}`, {
      summary: `write it as ${form}`,
    });
  }
}

function parse(text: string): ModelSource {
  if (text === "") throw new InvalidSource("it is empty", "hf://org/repo");
  if (text.length > MAX_LENGTH)
    throw new InvalidSource(
      `it is longer than ${MAX_LENGTH} characters`,
      "hf://org/repo",
      truncate(text, 40),
    );
  if (UNWRITABLE.test(text.startsWith("/") ? text.replaceAll(" ", "") : text))
    throw new InvalidSource("it holds a space or a control character", "percent-encode it (%20)");
  if (text.startsWith("/")) return parsePath(text);
  const [start, scheme] = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(text) ?? [];
  if (start === undefined || scheme === undefined) return bare(text);
  const name = scheme.toLowerCase();
  const kind = SOURCE_KINDS.find(({ schemes }) => schemes.includes(name));
  if (kind !== undefined) return kind.parse(text.slice(start.length), text);
  const known = SOURCE_KINDS.flatMap(({ schemes }) => schemes).join(", ");
  throw new InvalidSource(`${name}:// is not known`, `one of ${known}`);
}

function bare(text: string): ModelSource {
  if (text.includes("..") || text.split("/").length < 2)
    throw new InvalidSource(
      "it is neither a URL, an absolute path nor org/repo",
      "hf://org/repo, https://… or /path/on/the/host",
    );
  return parseBareRepository(text.replace(/^(hf\.co|huggingface\.co)\/(?=[^/]+\/)/i, ""));
}

export function isRemote(source: ModelSource): source is RemoteSource {
  return kindOf(source).readBy === "hub";
}

/** A source as it may leave its namespace: signed addresses carry secrets in their query. */
export function publicSource(text: string): string {
  return /^https?:/i.test(text) ? text.replace(/[?#].*$/s, "") : text;
}

/** Determines whether only the host that runs the model can read its source. A model of the Ollama library is a GGUF file if the Model says so. */
export function isReadByHost(source: ModelSource, format: ModelFormat | undefined): boolean {
  return kindOf(source).readBy === "host" || (source.kind === "ollama" && format !== "gguf");
}

/** The format that a source has when the Model names none; undefined where only looking at it can tell. */
export function defaultFormat(source: ModelSource): ModelFormat | undefined {
  const name = fileNameOf(source)?.toLowerCase();
  if (name?.endsWith(".gguf")) return "gguf";
  if (name?.endsWith(".safetensors")) return "safetensors";
  return kindOf(source).format?.(source);
}

/** The name of the file, or of what the source names instead; empty where it names nothing. */
export function shortNameOf(source: ModelSource): string {
  return kindOf(source).shortName?.(source) ?? fileNameOf(source) ?? "";
}

/** The last name of the file that the source names; undefined where it names none. */
export function fileNameOf(source: ModelSource): string | undefined {
  return kindOf(source).fileName?.(source);
}
