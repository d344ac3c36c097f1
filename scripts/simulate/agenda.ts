/** What is going to happen, in order of time; what was entered first goes first. */

export interface Agenda<E> {
  readonly at: (timeMs: number, event: E) => void;
  readonly next: () => { readonly timeMs: number; readonly event: E } | undefined;
}

interface Entry<E> {
  readonly timeMs: number;
  readonly number: number;
  readonly event: E;
}

/** A binary heap. */
export function createAgenda<E>(): Agenda<E> {
  const heap: Entry<E>[] = [];
  let number = 0;
  return {
    at: (timeMs, event) => {
      heap.push({ timeMs, number: number++, event });
      rise(heap);
    },
    next: () => {
      const first = heap[0];
      const last = heap.pop();
      if (last === undefined || heap.length === 0) return first;
      heap[0] = last;
      sink(heap);
      return first;
    },
  };
}

function rise(heap: Entry<unknown>[]): void {
  let child = heap.length - 1;
  while (child > 0) {
    const parent = (child - 1) >> 1;
    if (!isBefore(heap, child, parent)) return;
    swap(heap, child, parent);
    child = parent;
  }
}

function sink(heap: Entry<unknown>[]): void {
  let parent = 0;
  for (;;) {
    let least = parent;
    for (const child of [2 * parent + 1, 2 * parent + 2]) if (isBefore(heap, child, least)) least = child;
    if (least === parent) return;
    swap(heap, least, parent);
    parent = least;
  }
}

function isBefore(heap: readonly Entry<unknown>[], a: number, b: number): boolean {
  const one = heap[a];
  const other = heap[b];
  if (one === undefined || other === undefined) return false;
  return one.timeMs < other.timeMs || (one.timeMs === other.timeMs && one.number < other.number);
}

function swap(heap: Entry<unknown>[], a: number, b: number): void {
  const one = heap[a];
  const other = heap[b];
  if (one === undefined || other === undefined) return;
  heap[a] = other;
  heap[b] = one;
}
