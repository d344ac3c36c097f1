/** An order for thousands of rows that change each second. Pure. */
import type { ServiceRow } from "../../../../src/console/rows.ts";

type Named = Pick<ServiceRow, "namespace" | "name">;

/** As before where nothing came or went, else sorted by name: a table that sorts what is nearly sorted is quick. */
export function inOrderOf<R extends Named>(before: readonly R[], now: readonly R[]): readonly R[] {
  const rows = new Map(now.map((row) => [keyOf(row), row]));
  const known = before.flatMap((row) => rows.get(keyOf(row)) ?? []);
  if (known.length === before.length && known.length === now.length) return known;
  const keyed = [...rows].sort(([a], [b]) => collator.compare(a, b));
  return keyed.map(([, row]) => row);
}

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

function keyOf({ namespace, name }: Named): string {
  return `${namespace}/${name}`;
}
