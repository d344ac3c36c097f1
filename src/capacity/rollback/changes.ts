/** Compares two specs field by field. Pure. */
import { isDeepEqual } from "../../util/deep-equal.ts";
import { truncate } from "../../util/text.ts";

/** Maximum length of a printed value; a chat template can have thousands of characters. */
const MAX_VALUE = 200;

export interface SpecChange {
  /** Dotted path below spec. */
  readonly field: string;
  /** Undefined if the field is not set. */
  readonly from: unknown;
  readonly to: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/** Compares objects field by field, and all other values, such as lists, as a unit. */
export function changesBetween(from: Fields, to: Fields, prefix = ""): readonly SpecChange[] {
  const names = [...new Set([...Object.keys(from), ...Object.keys(to)])].sort();
  return names.flatMap((name) => {
    const [before, after] = [from[name], to[name]];
    if (isDeepEqual(before, after)) return [];
    const field = `${prefix}${name}`;
    if (isFields(before) && isFields(after)) return changesBetween(before, after, `${field}.`);
    return [{ field, from: before, to: after }];
  });
}

/** "contextSize 4096 -> 8192". */
export function renderChange({ field, from, to }: SpecChange): string {
  return `${field} ${renderValue(from)} -> ${renderValue(to)}`;
}

function renderValue(value: unknown): string {
  if (value === undefined) return "unset";
  const text = typeof value === "string" && /^\S+$/.test(value) ? value : JSON.stringify(value);
  return truncate(text, MAX_VALUE);
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
