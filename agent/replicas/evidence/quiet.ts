/** Detects that a draining engine is idle: no request in its gauges, and none that began and finished between two readings. Pure. */
import type { DrainReading } from "../../engines/driver/engine.ts";

export interface Quiet {
  readonly lastPollAt?: number;
  /** Since when every reading was zero and no counter changed; absent after a busy or failed reading. */
  readonly since?: number;
  readonly last?: DrainReading;
}

/** Adds a reading. A failed reading counts as busy; a changed counter means that there was work since the last reading. */
export function noteQuiet(before: Quiet, reading: DrainReading | "unknown", now: number): Quiet {
  if (reading === "unknown") return { lastPollAt: now };
  if (reading.inFlight > 0) return { lastPollAt: now, last: reading };
  const { last } = before;
  const isUnchanged = last?.decodeTotal === reading.decodeTotal && last?.tokensTotal === reading.tokensTotal;
  const since = isUnchanged ? (before.since ?? now) : now;
  return { lastPollAt: now, since, last: reading };
}
