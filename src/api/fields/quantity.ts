/** Kubernetes quantities (`16Gi`, `500m`, `1.5`): schema and value. */
import { z } from "zod";

const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

const QUANTITY = /^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(n|u|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|[eE][+-]?[0-9]+)?$/;

/** A field that accepts a quantity as a string or as a number. */
export function quantity(description: string) {
  return z
    .union([z.int().min(0), z.string().max(64).regex(QUANTITY)])
    .meta({ description, "x-kubernetes-int-or-string": true });
}

export type Quantity = string | number;

/** The value of a quantity; undefined if it is invalid. */
export function parseQuantity(value: Quantity): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) && value >= 0 ? value : undefined;
  const match = QUANTITY.exec(value.trim());
  if (match === null) return undefined;
  const [, digits = "", suffix = ""] = match;
  const factor = SUFFIXES[suffix];
  return factor === undefined ? Number(digits + suffix) : Number(digits) * factor;
}

const NANO = 10n ** 9n;
const MAX_VALUE = 2n ** 63n - 1n;
const DECIMAL = ["E", "P", "T", "G", "M", "k", "", "m", "u", "n"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/**
 * The form in which the API server stores a quantity in its own kinds: with the largest suffix of the same base that leaves
 * a whole number. Values that it would truncate, or write with an exponent, are not changed.
 */
export function canonicalQuantity(value: Quantity): string {
  const text = String(value);
  const [, digits = "", suffix = ""] = QUANTITY.exec(text.trim()) ?? [];
  if (digits === "" || /^[eE]./.test(suffix)) return text;
  const [whole = "", fraction = ""] = digits.split(".");
  const base = 10n ** BigInt(fraction.length);
  const power = BINARY.indexOf(suffix);
  const unit =
    power > 0 ? NANO * 1024n ** BigInt(power) : 1000n ** BigInt(DECIMAL.length - 1 - DECIMAL.indexOf(suffix));
  const nanos = (BigInt(`${whole}${fraction}`) * unit + base - 1n) / base;
  if (nanos > MAX_VALUE * NANO) return text;
  if (nanos === 0n) return "0";
  return power > 0 && nanos % NANO === 0n && nanos >= 1024n * NANO
    ? withLargestSuffix(nanos / NANO, 1024n, BINARY)
    : withLargestSuffix(nanos, 1000n, DECIMAL.toReversed());
}

function withLargestSuffix(value: bigint, base: bigint, suffixes: readonly string[]): string {
  let [number, index] = [value, 0];
  while (number % base === 0n && index < suffixes.length - 1) [number, index] = [number / base, index + 1];
  return `${number}${suffixes[index]}`;
}
