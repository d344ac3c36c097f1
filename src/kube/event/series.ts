/** Which occurrences belong to one Event object: the same thing said again becomes a count, not another object. Pure but for its memory. */
import type { ObjectReference } from "../objects.ts";

export interface EventInput {
  readonly type: "Normal" | "Warning";
  /** CamelCase, from the catalog where it is an error. */
  readonly reason: string;
  /** What was done or tried, CamelCase. */
  readonly action: string;
  /** A sentence for people. */
  readonly note: string;
  /** What makes it the same thing said again, where the note holds what differs each time; else the note does. */
  readonly sameAs?: string;
}

/** One Event object of ours at the server, or on its way there. */
export interface Series {
  readonly id: number;
  readonly regarding: ObjectReference;
  readonly event: EventInput;
  readonly firstAtMs: number;
  count: number;
  lastAtMs: number;
}

export interface SeriesMemory {
  /** The series that this occurrence joins, counted in, or a new one. */
  readonly note: (
    regarding: ObjectReference,
    event: EventInput,
    nowMs: number,
  ) => { readonly series: Series; readonly isNew: boolean };
  readonly forget: (series: Series) => void;
  readonly size: () => number;
}

/** Longer than the longest wait between two starts of an engine that crashes, with its jitter: its ends are one Event. */
const WINDOW_MS = 15 * 60_000;
const MAX_SERIES = 512;
/** So many different notes of one group within the window become objects of their own; the rest is counted in the newest. */
const MAX_NOTES = 10;

/** An empty memory; it never holds more than a fixed number of series, the longest unused leave first. */
export function createSeriesMemory(): SeriesMemory {
  // Insertion order is order of use.
  const byNote = new Map<string, Series>();
  const groups = new Map<string, { notes: number; sinceMs: number; newestKey: string }>();
  let nextId = 1;

  const use = (key: string, series: Series): void => {
    byNote.delete(key);
    byNote.set(key, series);
    for (const oldest of byNote.keys()) {
      if (byNote.size <= MAX_SERIES) break;
      byNote.delete(oldest);
    }
  };

  const note = (regarding: ObjectReference, event: EventInput, nowMs: number) => {
    const groupKey = groupKeyOf(regarding, event);
    const exactKey = `${groupKey}\n${event.sameAs ?? event.note}`;
    let group = groups.get(groupKey);
    if (group === undefined || nowMs - group.sinceMs > WINDOW_MS)
      group = { notes: 0, sinceMs: nowMs, newestKey: exactKey };
    const key = byNote.has(exactKey) || group.notes < MAX_NOTES ? exactKey : group.newestKey;
    const known = byNote.get(key);
    if (known !== undefined && nowMs - known.lastAtMs <= WINDOW_MS) {
      known.count += 1;
      known.lastAtMs = nowMs;
      use(key, known);
      return { series: known, isNew: false };
    }
    const series: Series = { id: nextId++, regarding, event, firstAtMs: nowMs, count: 1, lastAtMs: nowMs };
    remember(groups, groupKey, { notes: group.notes + 1, sinceMs: group.sinceMs, newestKey: exactKey });
    use(exactKey, series);
    return { series, isNew: true };
  };

  const forget = (series: Series): void => {
    for (const [key, known] of byNote) if (known === series) byNote.delete(key);
  };

  return { note, forget, size: () => byNote.size };
}

function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= MAX_SERIES) break;
    map.delete(oldest);
  }
}

function groupKeyOf(
  { kind, namespace, name, uid }: ObjectReference,
  { type, reason, action }: EventInput,
): string {
  return [kind, namespace, name, uid, type, reason, action].join("\n");
}
