/** Selects the files of a source that make up the model, by `files`, `ignorePatterns`, `mmproj`, `format` and `quantization`. Pure. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { ModelFormat } from "../../api/fields/shared.ts";
import { checkDistinct, checkFileName } from "./file-name.ts";
import { parseSplitName, splitFileNames } from "./split-files.ts";

export interface SelectableFiles {
  /** For messages. */
  readonly shown: string;
  /** File that the source itself names. */
  readonly named?: string | undefined;
  /** Every file of the source; undefined where it has no list. */
  readonly available?: readonly string[] | undefined;
}

/** From the spec of a Model, or from a replica's template. */
export interface FileSelector {
  readonly files?: readonly string[] | undefined;
  /** Files that match one of these patterns are not part of the model. */
  readonly ignorePatterns?: readonly string[] | undefined;
  readonly mmproj?: string | undefined;
  readonly format?: ModelFormat | undefined;
  /** Chooses where the source holds several models. */
  readonly quantization?: string | undefined;
}

export interface SelectedFiles {
  readonly format: ModelFormat;
  /** Names relative to the source, the main file first; parts of a split file follow each other. */
  readonly files: readonly string[];
  /** `at` is as the spec has it: a name relative to the source, or an address. */
  readonly projector?: { readonly name: string; readonly at: string };
  /** The path that the engine opens, relative to the folder of the files; empty for the folder itself. */
  readonly entry: string;
  /** True where the source holds several models, and `quantization` decided. */
  readonly isChosen: boolean;
}

/** macOS stores attributes in ._NAME beside each file on exFAT and SMB. */
const HIDDEN = /(^|\/)\.(?!\.)/;
/** Words in the names of draft models for speculative decoding, which repositories hold beside their model. */
const DRAFTER = /(^|[/._-])(mtp|draft|drafter|eagle[23]?|dflash|medusa)[/._-]/i;
/** UD-Q8_0 is another quantization than Q8_0. */
const UNSLOTH_DYNAMIC = /(^|[/._-])UD-/i;

/** The files of a source without those that the spec excludes, which are kept for messages. */
interface Candidates extends SelectableFiles {
  readonly excluded: readonly string[];
}

/**
 * The file that the source names comes first, then those of the spec; the first is the main file. Where neither names
 * one, it is the only GGUF there, the one of the quantization, or for other formats everything but documentation.
 * Throws MetalbridgeError.
 */
export function selectFiles(all: SelectableFiles, selector: FileSelector): SelectedFiles {
  const place = withoutExcluded(all, selector);
  const { shown, named, available } = place;
  const patterns = [...(named === undefined ? [] : [named]), ...(selector.files ?? [])];
  const requested = patterns.flatMap((pattern) => expand(place, pattern, selector));
  const format = selector.format ?? formatOf(requested, available ?? []);
  const choice =
    requested.length > 0 ? { files: requested, isChosen: false } : chooseFiles(place, format, selector);
  const files = [...new Set(choice.files.map(checkFileName).flatMap(splitFileNames))];
  const projector = selector.mmproj === undefined ? undefined : projectorAt(selector.mmproj);
  const names = [
    ...files,
    ...(projector === undefined || files.includes(projector.name) ? [] : [projector.name]),
  ];
  const excluded = names.find((name) => isExcluded(name, selector));
  if (excluded !== undefined) throw filesExcluded(`${shown} lacks a file of the model`, [excluded], selector);
  const missing = available === undefined ? undefined : names.find((name) => !available.includes(name));
  if (missing !== undefined) throw new MetalbridgeError("SourceNotFound", `${shown} has no file ${missing}`);
  checkDistinct(names);
  const [main = ""] = files;
  return {
    format,
    files,
    projector,
    entry: format === "gguf" || names.length === 1 ? main : "",
    isChosen: choice.isChosen,
  };
}

/** True for a file that `ignorePatterns` exclude. A pattern that ends with a slash stands for the files of a folder. */
export function isExcluded(name: string, { ignorePatterns = [] }: FileSelector): boolean {
  return ignorePatterns.some((pattern) => matches(pattern.replace(/\/$/, "/*"), name));
}

function withoutExcluded(place: SelectableFiles, selector: FileSelector): Candidates {
  const isIn = (name: string) => !isExcluded(name, selector);
  const { available } = place;
  return {
    ...place,
    available: available?.filter(isIn),
    excluded: available?.filter((name) => !isIn(name)) ?? [],
  };
}

function filesExcluded(found: string, names: readonly string[], { ignorePatterns = [] }: FileSelector) {
  const list = `${names.slice(0, 4).join(", ")}${names.length > 4 ? ", …" : ""}`;
  return new MetalbridgeError(
    "FilesExcluded",
    `${found}: spec.ignorePatterns (${ignorePatterns.join(", ")}) exclude ${list}`,
  );
}

/** The files that a pattern stands for: all that match, of GGUF files those of one model. */
function expand(place: Candidates, pattern: string, selector: FileSelector) {
  const { shown, available, excluded } = place;
  if (!/[*?]/.test(pattern) || [...(available ?? []), ...excluded].includes(pattern)) return [pattern];
  if (available === undefined) {
    const remedy = { summary: "name the files themselves" };
    throw new MetalbridgeError("SourceNotFound", `${shown} has no list to look for ${pattern} in`, remedy);
  }
  const isMatch = (name: string) => matches(pattern, name);
  const matching = available.filter(isMatch);
  if (matching.length === 0)
    throw nothingFound("SourceNotFound", `no file of ${shown} matches ${pattern}`, place, isMatch, selector);
  const others = matching.filter((name) => !name.toLowerCase().endsWith(".gguf"));
  return others.length === matching.length
    ? others
    : [...chooseGguf({ ...place, available: matching }, selector).files, ...others];
}

/** Names the files that would have been found without `ignorePatterns`. */
function nothingFound(
  code: "SourceNotFound" | "SourceIsNotAModel",
  message: string,
  { excluded }: Candidates,
  isSelected: (name: string) => boolean,
  selector: FileSelector,
): MetalbridgeError {
  const selected = excluded.filter(isSelected);
  return selected.length === 0
    ? new MetalbridgeError(code, message)
    : filesExcluded(message, selected, selector);
}

/** `*` is any text, slashes too, as in other tools of the hubs; `?` any character. Linear in what is common, never exponential. */
function matches(pattern: string, name: string): boolean {
  let [at, star, from] = [0, -1, 0];
  for (let index = 0; index < name.length; ) {
    if (pattern[at] === "*") {
      star = at;
      from = index;
      at += 1;
    } else if (pattern[at] === "?" || pattern[at] === name[index]) {
      at += 1;
      index += 1;
    } else {
      if (star < 0) return false;
      // The last star takes one character more.
      from += 1;
      at = star + 1;
      index = from;
    }
  }
  return /^\**$/.test(pattern.slice(at));
}

function formatOf(requested: readonly string[], available: readonly string[]): ModelFormat {
  const names = requested.length > 0 ? requested : available;
  const has = (ending: string) => names.some((name) => name.toLowerCase().endsWith(ending));
  return !has(".gguf") && has(".safetensors") ? "safetensors" : "gguf";
}

function projectorAt(at: string): { name: string; at: string } {
  if (!/^https?:/i.test(at)) return { name: checkFileName(at), at };
  const { pathname } = new URL(at);
  return { name: checkFileName(pathname.slice(pathname.lastIndexOf("/") + 1)), at };
}

function chooseFiles(place: Candidates, format: ModelFormat, selector: FileSelector) {
  if (place.available === undefined)
    throw new MetalbridgeError("SourceNotFound", `${place.shown} does not exist, or names no file`);
  return format === "gguf"
    ? chooseGguf(place, selector)
    : { files: chooseAll(place, selector), isChosen: false };
}

function chooseGguf(place: Candidates, selector: FileSelector) {
  const { shown, available = [] } = place;
  const { quantization, mmproj } = selector;
  const mains = available.filter((name) => name !== mmproj && isMainGguf(name)).sort();
  if (mains.length === 0)
    throw nothingFound("SourceIsNotAModel", `${shown} has no .gguf file`, place, isMainGguf, selector);
  const named = quantization === undefined ? mains : mains.filter((name) => hasWord(name, quantization));
  const isUd = /^UD-/i.test(quantization ?? "UD-");
  const models = preferred(named, DRAFTER);
  const fitting = isUd ? models : preferred(models, UNSLOTH_DYNAMIC);
  if (fitting.length === 1) return { files: fitting, isChosen: mains.length > 1 };
  const list = (fitting.length === 0 ? mains : fitting).slice(0, 8).join(", ");
  const why = fitting.length === 0 ? `none is named ${quantization}` : "nothing says which one to use";
  throw new MetalbridgeError("SourceAmbiguous", `${shown} has several models (${list}), and ${why}`);
}

/** Without the names that match, unless all do. */
function preferred(names: readonly string[], other: RegExp): readonly string[] {
  const rest = names.filter((name) => !other.test(name));
  return rest.length === 0 ? names : rest;
}

function chooseAll(place: Candidates, selector: FileSelector): readonly string[] {
  const isModelFile = (name: string) => !HIDDEN.test(name) && !/\.(md|png|jpe?g|gif|pdf)$/i.test(name);
  const modelFiles = (place.available ?? []).filter(isModelFile);
  if (modelFiles.length === 0)
    throw nothingFound("SourceNotFound", `${place.shown} has no model files`, place, isModelFile, selector);
  return modelFiles;
}

function isMainGguf(name: string): boolean {
  if (!name.toLowerCase().endsWith(".gguf") || HIDDEN.test(name)) return false;
  if (/(^|[/_.-])mmproj/i.test(name) || /imatrix/i.test(name)) return false;
  return (parseSplitName(name)?.index ?? 1) === 1;
}

function hasWord(file: string, quantization: string): boolean {
  const escaped = quantization.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`(^|[/._-])${escaped}([/._-]|$)`, "i").test(file);
}
