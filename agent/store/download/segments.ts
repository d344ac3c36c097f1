/** Assigns the ranges of one file to several connections. */

export interface Segment {
  readonly start: number;
  /** All bytes before this offset are in the file. */
  at: number;
  /** Offset after the last byte. */
  end: number;
  /** Set while the segment has no byte yet: stops its request, because the previous connection has reached its start. */
  takeOver?: () => void;
}

export interface Segments {
  /** Takes the lowest range that no connection fetches. "wait": wait for a change. "done": every range was fetched. */
  readonly take: () => Segment | "wait" | "done";
  /** Extends the segment of a connection that has read up to `offset`, and returns the new end. */
  readonly extend: (segment: Segment, offset: number) => number;
  readonly finish: (segment: Segment) => void;
  /** Leaves the missing bytes of the segment to other connections. */
  readonly release: (segment: Segment) => void;
  /** All bytes before this offset are in the file. */
  readonly contiguous: () => number;
  /** Resolves when a segment is finished or released, or `notify` is called. */
  readonly change: () => Promise<void>;
  readonly notify: () => void;
}

export interface SegmentLimits {
  readonly segmentBytes: number;
  /** Maximum distance between the contiguous bytes and the start of a new range. */
  readonly aheadBytes: number;
}

/** A connection already fetches `first`. */
export function createSegments(
  first: Segment,
  totalBytes: number,
  { segmentBytes, aheadBytes }: SegmentLimits,
): Segments {
  const active = new Set([first]);
  const free: Segment[] = [];
  let next = first.end;
  let changed = Promise.withResolvers<void>();

  const contiguous = (): number => Math.min(next, ...[...active, ...free].map(({ at }) => at));
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const cut = (): number => {
    next = Math.min(next + segmentBytes, totalBytes);
    return next;
  };
  const end = (segment: Segment): void => {
    active.delete(segment);
    notify();
  };
  /** The end of the range that begins at `offset`, if no connection has a byte of it yet. */
  const endFrom = (offset: number): number | undefined => {
    if (offset === next && next < totalBytes) return cut();
    const index = free.findIndex(({ at }) => at === offset);
    if (index >= 0) return free.splice(index, 1)[0]?.end;
    for (const other of active) {
      if (other.start !== offset || other.at !== offset || other.takeOver === undefined) continue;
      active.delete(other);
      other.takeOver();
      return other.end;
    }
    return undefined;
  };

  return {
    take: () => {
      const again = free.shift();
      if (again !== undefined) {
        active.add(again);
        return again;
      }
      if (next >= totalBytes) return active.size === 0 ? "done" : "wait";
      if (next >= contiguous() + aheadBytes) return "wait";
      const segment = { start: next, at: next, end: cut() };
      active.add(segment);
      return segment;
    },
    extend: (segment, offset) => {
      if (offset >= segment.end) segment.end = endFrom(offset) ?? segment.end;
      return segment.end;
    },
    finish: end,
    release: (segment) => {
      const { at, end: to } = segment;
      if (at < to) free.push({ start: at, at, end: to });
      free.sort((a, b) => a.start - b.start);
      end(segment);
    },
    contiguous,
    change: () => changed.promise,
    notify,
  };
}
