/** The order of a table. After a change only the rows that differ get a new place: sorting 5,000 texts takes longer than a frame. Pure. */

export type Compare<R> = (one: R, other: R) => number;

interface Order<R> {
  /** Undefined for a column that does not exist: only the keys decide. */
  readonly value: ((row: R) => string | number | undefined) | undefined;
  readonly isDescending: boolean;
  readonly keyOf: (row: R) => string;
}

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/** Rows without a value are last in both directions. Rows of equal value are in the order of their keys. */
export function compareBy<R>({ value, isDescending, keyOf }: Order<R>): Compare<R> {
  const byKey = (one: R, other: R) => (keyOf(one) < keyOf(other) ? -1 : 1);
  if (value === undefined) return byKey;
  return (one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === undefined || b === undefined)
      return Number(a === undefined) - Number(b === undefined) || byKey(one, other);
    const order =
      typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
    return (isDescending ? -order : order) || byKey(one, other);
  };
}

/** `before` is the result for earlier rows with the same `compare`. A row that changed is another object. */
export function sortRows<R>(rows: readonly R[], before: readonly R[], compare: Compare<R>): readonly R[] {
  const current = new Set(rows);
  const kept = before.filter((row) => current.has(row));
  if (kept.length === rows.length && kept.length === before.length) return before;
  for (const row of kept) current.delete(row);
  const fresh = [...current].sort(compare);
  const sorted: R[] = [];
  let next = 0;
  for (const row of fresh) {
    const end = placeOf(row, kept, next, compare);
    while (next < end) sorted.push(kept[next++] as R);
    sorted.push(row);
  }
  while (next < kept.length) sorted.push(kept[next++] as R);
  return sorted;
}

/** Index, from `low` on, of the first row that belongs behind this one. */
function placeOf<R>(row: R, sorted: readonly R[], from: number, compare: Compare<R>): number {
  let [low, high] = [from, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(sorted[middle] as R, row) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
