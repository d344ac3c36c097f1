/** Reads counts from metadata values; what is senseless counts as absent. */
import type { GgufValue } from "./types.ts";

/** A count: a whole number that is not negative; of an array the largest one. */
export function countFrom(value: GgufValue | undefined): number | undefined {
  if (typeof value === "object") {
    const all = numbers(value);
    return all === undefined || all.length === 0
      ? undefined
      : all.reduce((most, one) => Math.max(most, one), 0);
  }
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** The items of an array, 0 for what is no positive whole number. */
export function numbers(value: GgufValue | undefined): number[] | undefined {
  if (typeof value !== "object" || value.items === undefined) return undefined;
  return value.items.map((item) =>
    typeof item === "number" && Number.isSafeInteger(item) && item > 0 ? item : 0,
  );
}
