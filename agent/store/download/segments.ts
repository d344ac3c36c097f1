/** Which connection fetches which range of one file, when several share it. */

export interface Segment {
  readonly start: number;
  /** Up to here its bytes are in the file. */
  at: number;
  /** Behind its last byte. */
  end: number;
  /** Set while its answer is awaited: stops that, because the connection before it has come as far. */
  takeOver?: () => void;
}

export interface Segments {
  /** The lowest range that is not fetched yet; "wait" for a change; "done" once every range is there. */
  readonly take: () => Segment | "wait" | "done";
  /** A connection that has read up to `offset`, the end of its segment: how far it may read on. */
  readonly extend: (segment: Segment, offset: number) => number;
  readonly finish: (segment: Segment) => void;
  /** What is missing of it is for other connections. */
  readonly giveBack: (segment: Segment) => void;
  /** Everything before this offset is in the file. */
  readonly contiguous: () => number;
  /** Resolves when a segment has been finished or given back, or `notify` is called. */
  readonly change: () => Promise<void>;
  readonly notify: () => void;
}

export interface SegmentLimits {
  readonly segmentBytes: number;
  /** No range that begins farther than this ahead of the contiguous bytes is taken. */
  readonly aheadBytes: number;
}

/** `first` is fetched already; the ranges behind it are for whoever takes them. */
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
  /** Of the range that begins at `offset`, if no connection has a byte of it yet. */
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
    giveBack: (segment) => {
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
