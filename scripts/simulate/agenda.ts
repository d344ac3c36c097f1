/** What is going to happen, in order of time; what was entered first goes first. */

export interface Agenda<E> {
  readonly at: (timeMs: number, event: E) => void;
  readonly next: () => AgendaEntry<E> | undefined;
}

interface AgendaEntry<E> {
  readonly timeMs: number;
  readonly event: E;
}

export function createAgenda<E>(): Agenda<E> {
  /** The last comes first, so that it is cheap to take. */
  const entries: AgendaEntry<E>[] = [];
  return {
    at: (timeMs, event) => {
      let low = 0;
      for (let high = entries.length; low < high; ) {
        const middle = (low + high) >> 1;
        if ((entries[middle]?.timeMs ?? 0) > timeMs) low = middle + 1;
        else high = middle;
      }
      entries.splice(low, 0, { timeMs, event });
    },
    next: () => entries.pop(),
  };
}
