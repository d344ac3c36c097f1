/** Arithmetic of times in which something was so. Pure. */
import { eventsOf, type Recording } from "../../observe/recording.ts";

export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Joined where they touch, in order. */
export function union(spans: readonly Span[]): readonly Span[] {
  const joined: Span[] = [];
  for (const span of [...spans].sort((one, other) => one.from - other.from)) {
    const last = joined.at(-1);
    if (last === undefined || span.from > last.to) joined.push(span);
    else joined[joined.length - 1] = { from: last.from, to: Math.max(last.to, span.to) };
  }
  return joined;
}

/** What of the first is in none of the second. */
export function subtract(spans: readonly Span[], away: readonly Span[]): readonly Span[] {
  const cuts = union(away);
  return union(spans).flatMap((span) => {
    const left: Span[] = [];
    let from = span.from;
    for (const cut of cuts) {
      if (cut.to <= from || cut.from >= span.to) continue;
      if (cut.from > from) left.push({ from, to: cut.from });
      from = Math.max(from, cut.to);
    }
    if (from < span.to) left.push({ from, to: span.to });
    return left;
  });
}

export function overlaps({ from, to }: Span, spans: readonly Span[]): boolean {
  return spans.some((span) => span.from <= to && from <= span.to);
}

/** Each lasts so much longer. */
export function extend(spans: readonly Span[], ms: number): readonly Span[] {
  return spans.map(({ from, to }) => ({ from, to: to + ms }));
}

export function lengthOf({ from, to }: Span): number {
  return to - from;
}

/** From each event that begins it to the next that ends it; what never ended lasts until `now`. */
export function spansOf<T extends { readonly at: number }>(
  events: readonly T[],
  isOn: (event: T) => boolean | undefined,
  now: number,
): readonly Span[] {
  const spans: Span[] = [];
  let from: number | undefined;
  for (const event of events) {
    const on = isOn(event);
    if (on === true) from ??= event.at;
    if (on === false && from !== undefined) {
      spans.push({ from, to: event.at });
      from = undefined;
    }
  }
  if (from !== undefined) spans.push({ from, to: Math.max(now, from) });
  return spans;
}

/** How late the harness itself was in that time: what it saw late is not held against the farm. */
export function lagMs(recording: Recording, { from, to }: Span): number {
  const late = eventsOf(recording, "lag").filter((event) => event.at >= from && event.at - event.maxMs <= to);
  return late.reduce((sum, { maxMs }) => sum + maxMs, 0);
}
