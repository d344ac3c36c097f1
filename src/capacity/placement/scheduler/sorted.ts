/** Arrays kept in order by binary search. */

export type Comparator<T> = (a: T, b: T) => number;

/** Index of the first item for which `isBefore` is false. */
export function lowerBound<T>(items: readonly T[], isBefore: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(items[middle] as T)) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function insertSorted<T>(items: T[], item: T, compare: Comparator<T>): void {
  const at = lowerBound(items, (other) => compare(other, item) < 0);
  items.splice(at, 0, item);
}

/** The item must compare in the same way as when it was inserted. */
export function removeSorted<T>(items: T[], item: T, compare: Comparator<T>): void {
  const at = lowerBound(items, (other) => compare(other, item) < 0);
  if (items[at] === item) items.splice(at, 1);
}
