/** Groups occurrences into Event objects: a repetition increments a count instead of creating another object. */
import { setBounded } from "../../util/bounded-map.ts";
import type { ObjectReference } from "../objects.ts";

export interface EventInput {
  readonly type: "Normal" | "Warning";
  /** Reason in CamelCase; an error code of the catalog for an error. */
  readonly reason: string;
  /** Action that was done or attempted, in CamelCase. */
  readonly action: string;
  /** Human-readable message. */
  readonly note: string;
  /** Identifies repetitions if the note differs each time. Defaults to the note. */
  readonly sameAs?: string;
}

/** An Event object at the server, or to be created there. */
export interface Series {
  readonly id: number;
  readonly regarding: ObjectReference;
  readonly event: EventInput;
  readonly firstAtMs: number;
  count: number;
  lastAtMs: number;
}

export interface SeriesMemory {
  /** Counts the occurrence in its series, which may be new. */
  readonly note: (
    regarding: ObjectReference,
    event: EventInput,
    nowMs: number,
  ) => { readonly series: Series; readonly isNew: boolean };
  readonly forget: (series: Series) => void;
  readonly size: () => number;
}

/** Longer than the maximum backoff between two starts of a crashing engine, so that its exits are a single Event. */
const WINDOW_MS = 15 * 60_000;
const MAX_SERIES = 512;
/** Maximum number of objects for different notes of a group within the window. Further notes are counted in the newest object. */
const MAX_NOTES = 10;

/** An empty memory for a fixed number of series. The least recently used series are removed first. */
export function createSeriesMemory(): SeriesMemory {
  // The insertion order is the order of use.
  const byNote = new Map<string, Series>();
  const groups = new Map<string, { notes: number; sinceMs: number; newestKey: string }>();
  let nextId = 1;

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
      setBounded(byNote, key, known, MAX_SERIES);
      return { series: known, isNew: false };
    }
    const series: Series = { id: nextId++, regarding, event, firstAtMs: nowMs, count: 1, lastAtMs: nowMs };
    setBounded(
      groups,
      groupKey,
      { notes: group.notes + 1, sinceMs: group.sinceMs, newestKey: exactKey },
      MAX_SERIES,
    );
    setBounded(byNote, exactKey, series, MAX_SERIES);
    return { series, isNew: true };
  };

  const forget = (series: Series): void => {
    for (const [key, known] of byNote) if (known === series) byNote.delete(key);
  };

  return { note, forget, size: () => byNote.size };
}

function groupKeyOf(
  { kind, namespace, name, uid }: ObjectReference,
  { type, reason, action }: EventInput,
): string {
  return [kind, namespace, name, uid, type, reason, action].join("\n");
}
