/** Kubernetes quantities (`16Gi`, `500m`, `1.5`): the field schema, and their value as a number. */
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

/** A field that takes a quantity, written as a string or as a plain number. */
export function quantity(description: string) {
  return z
    .union([z.int().min(0), z.string().max(64).regex(QUANTITY)])
    .meta({ description, "x-kubernetes-int-or-string": true });
}

export type Quantity = string | number;

/** The value of a quantity, or undefined where it is none: the caller says which field that was. */
export function parseQuantity(value: Quantity): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) && value >= 0 ? value : undefined;
  const match = QUANTITY.exec(value.trim());
  if (match === null) return undefined;
  const [, digits = "", suffix = ""] = match;
  const factor = SUFFIXES[suffix];
  return factor === undefined ? Number(digits + suffix) : Number(digits) * factor;
}
