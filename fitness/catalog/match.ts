/** Finds the record for a name: a repository, a file, or the model's plain name. Pure. */
import type { CatalogRecord } from "./record.ts";

export type Match =
  | { readonly at: "one"; readonly record: CatalogRecord }
  /** The sizes and dates of one family, never its specialized models. */
  | { readonly at: "several"; readonly records: readonly CatalogRecord[] }
  | { readonly at: "none" };

/** Longer names are cut. */
const MAX_NAME = 512;
/** A name with more words matches no model. */
const MAX_WORDS = 32;
/** Maximum number of cached sources; a fleet uses few different ones. */
const MAX_SOURCES = 4096;
const MAX_NEAREST = 5;
/** Words that do not identify a model. */
const NOISE = new Set([
  ...["gguf", "mlx", "instruct", "it", "chat", "hf", "meta", "pt", "ud", "fp8", "awq", "gptq"],
  ...["bf16", "f16", "f32", "dwq", "safetensors", "latest"],
]);
const QUANTIZATION = /^(i?q\d\w*|mxfp4|\d+bit|k|m|s|l|xl|xs|xxs)$/;
const SIZE = /^(\d+(\.\d+)?[bm]|a\d+(\.\d+)?b|\d+e|\d+x\d+b)$/;
const DATE = /^(\d{4}|v\d+(\.\d+)?)$/;

/** Tries exact names, then equivalent names, then the family. `Qwen2.5` never matches `Qwen2.5-Coder`. */
export function matchName(records: readonly CatalogRecord[], name: string): Match {
  return createMatcher(records)(name);
}

/** The same for many names: the records are indexed once. */
export function createMatcher(records: readonly CatalogRecord[]): (name: string) => Match {
  const byName = new Map(records.map((record) => [record.name.toLowerCase(), record]));
  const bySource = holdersBySource(records);
  const owners = ownersOf(records);
  const known = records.map((record) => ({ record, words: wordsOf(record.name.toLowerCase(), owners) }));
  return (name) => {
    const requested = plain(name);
    const holders = bySource.get(repositoryOf(requested)) ?? [];
    const exact = byName.get(requested) ?? (holders.length === 1 ? holders[0] : undefined);
    if (exact !== undefined) return { at: "one", record: exact };
    return matchWords(known, wordsOf(requested, owners));
  };
}

/** Finds the one record for a source. Results are cached, except for very long sources. */
export function createRecordOf(
  match: (name: string) => Match,
): (source: string) => CatalogRecord | undefined {
  const known = new Map<string, CatalogRecord | undefined>();
  return (source) => {
    if (known.has(source)) return known.get(source);
    const found = match(source);
    const record = found.at === "one" ? found.record : undefined;
    if (source.length > MAX_NAME) return record;
    if (known.size >= MAX_SOURCES) known.clear();
    known.set(source, record);
    return record;
  };
}

/** Suggestions for a name without a match: names with common words. Compares every word with every record. */
export function nearestNames(records: readonly CatalogRecord[], name: string): readonly string[] {
  const owners = ownersOf(records);
  const requested = wordsOf(plain(name), owners).slice(0, MAX_WORDS);
  return records
    .map((record) => {
      const words = wordsOf(record.name.toLowerCase(), owners);
      return { name: record.name, common: requested.filter((word) => words.includes(word)).length };
    })
    .filter(({ common }) => common > 0)
    .sort((a, b) => b.common - a.common || (a.name < b.name ? -1 : 1))
    .slice(0, MAX_NEAREST)
    .map(({ name }) => name);
}

/** Records that contain every word of the text in name, use case, license or architecture. */
export function searchRecords(records: readonly CatalogRecord[], text: string): readonly CatalogRecord[] {
  const words = text
    .slice(0, MAX_NAME)
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  return records.filter(({ name, use_case, license, architecture }) => {
    const about = `${name} ${use_case} ${license ?? ""} ${architecture ?? ""}`.toLowerCase();
    return words.every((word) => about.includes(word));
  });
}

interface Known {
  readonly record: CatalogRecord;
  readonly words: readonly string[];
}

function matchWords(known: readonly Known[], words: readonly string[]): Match {
  if (words.length === 0 || words.length > MAX_WORDS) return { at: "none" };
  const same = known.filter((one) => isSame(one.words, words)).map(({ record }) => record);
  const [first] = same;
  if (first !== undefined) return same.length === 1 ? { at: "one", record: first } : several(same);
  const family = known.filter((one) => isSameFamily(one.words, words)).map(({ record }) => record);
  return family.length > 0 ? several(family) : { at: "none" };
}

function several(records: readonly CatalogRecord[]): Match {
  return { at: "several", records };
}

function plain(name: string): string {
  return name.slice(0, MAX_NAME).trim().toLowerCase();
}

function ownersOf(records: readonly CatalogRecord[]): ReadonlySet<string> {
  return new Set(records.map(({ provider }) => provider.toLowerCase()));
}

/** Records by repository; a mirror may have files of several models. */
function holdersBySource(records: readonly CatalogRecord[]): ReadonlyMap<string, readonly CatalogRecord[]> {
  const pairs = records.flatMap((record) => {
    const repositories = [...record.gguf_sources.map(({ repo }) => repo), ...record.mlx_sources];
    return [...new Set(repositories.map((one) => one.toLowerCase()))].map((repository) => ({
      repository,
      record,
    }));
  });
  const groups = Map.groupBy(pairs, ({ repository }) => repository);
  return new Map([...groups].map(([repository, group]) => [repository, group.map(({ record }) => record)]));
}

/** `hf://org/repo/file.gguf` and `https://huggingface.co/org/repo/…` name the same repository. */
function repositoryOf(name: string): string {
  const path = name.replace(/^(hf:\/\/|https:\/\/(huggingface\.co|hf\.co)\/)/, "");
  return path
    .replace(/[@?#].*$/, "")
    .split("/")
    .slice(0, 2)
    .join("/");
}

/** The words that identify a model, without the owner that mirrors prepend. */
function wordsOf(name: string, owners: ReadonlySet<string>): readonly string[] {
  const repository = repositoryOf(name);
  const base = repository.split("/").at(-1) ?? repository;
  const parts = base.replace(/\.gguf$/, "").split(/[-_\s:]+/);
  const [first = "", ...others] = parts;
  const own = others.length > 0 && owners.has(first) && base.startsWith(`${first}_`) ? others : parts;
  const words = own.filter((word) => word !== "" && !NOISE.has(word) && !QUANTIZATION.test(word));
  return words.map((word) =>
    word.replace(/^(\d+(?:\.\d+)?)([bm])$/, (_, size, unit) => `${Number(size)}${unit}`),
  );
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((word) => other.includes(word));
}

function isSameFamily(known: readonly string[], requested: readonly string[]): boolean {
  if (!requested.every((word) => known.includes(word))) return false;
  return known.every((word) => requested.includes(word) || SIZE.test(word) || DATE.test(word));
}
