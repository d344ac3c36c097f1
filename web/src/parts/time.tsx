/** A moment, relative to the server's clock; the absolute time in the reader's zone on hover. */
import { useNow } from "../live/hooks.ts";
import { formatDuration } from "./format.ts";

const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
/** Clocks of machines differ a little. */
const JUST_NOW_MS = 2_000;

export function Ago({ at, suffix = " ago" }: { readonly at: string | undefined; readonly suffix?: string }) {
  const nowMs = useNow();
  const atMs = at === undefined ? Number.NaN : Date.parse(at);
  if (Number.isNaN(atMs)) return <span className="muted">never</span>;
  const ageMs = nowMs - atMs;
  return (
    <time dateTime={at} title={absolute.format(atMs)} className="number">
      {ageMs < JUST_NOW_MS ? "now" : `${formatDuration(ageMs)}${suffix}`}
    </time>
  );
}

export function formatMoment(atMs: number): string {
  return absolute.format(atMs);
}
