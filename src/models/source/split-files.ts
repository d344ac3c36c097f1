/** Names of split GGUF files: `name-00001-of-00003.gguf`. */

const SPLIT = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;
const MAX_PARTS = 512;

export interface SplitName {
  readonly stem: string;
  readonly index: number;
  readonly count: number;
}

/** The parts of a split file's name; undefined for any other name. */
export function parseSplitName(name: string): SplitName | undefined {
  const match = SPLIT.exec(name);
  if (match === null) return undefined;
  const [, stem = "", index, count] = match;
  const parts = { stem, index: Number(index), count: Number(count) };
  const isSane =
    parts.count >= 1 && parts.count <= MAX_PARTS && parts.index >= 1 && parts.index <= parts.count;
  return isSane ? parts : undefined;
}

/** All names of the set that a file belongs to, the first part first; just the name where it is no part. */
export function splitFileNames(name: string): string[] {
  const split = parseSplitName(name);
  if (split === undefined) return [name];
  const digits = (value: number) => String(value).padStart(5, "0");
  return Array.from(
    { length: split.count },
    (_, index) => `${split.stem}-${digits(index + 1)}-of-${digits(split.count)}.gguf`,
  );
}
