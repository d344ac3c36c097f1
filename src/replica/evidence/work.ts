/** Does an engine that has work get on with it: its gauges, read again and again, and the time they stood still. Pure. */

/** Requests running or waiting, and counters that move with each decode step and token. */
export interface WorkReading {
  readonly inFlight: number;
  readonly decodeTotal: number;
  readonly tokensTotal: number;
}

/** What this agent has seen of this run. */
export interface Work {
  readonly last?: WorkReading;
  /** When `last` was read; absent after a reading that failed, so that the time in between counts for nothing. */
  readonly lastAt?: number;
  /** How long there has been work and no counter has moved. */
  readonly stalledMs: number;
  /** The longest such time that ended by moving on. */
  readonly longestStepMs: number;
}

export const NO_WORK_SEEN: Work = { stalledMs: 0, longestStepMs: 0 };

/**
 * One more reading. Only time between two readings that follow one another is evidence: a gap longer than `longestGapMs`
 * is a host that slept or an agent that stood still, and its engine stood still with it.
 */
export function seeWork(
  before: Work,
  reading: WorkReading | "unknown",
  now: number,
  longestGapMs: number,
): Work {
  if (reading === "unknown") {
    const { lastAt: _, ...kept } = before;
    return kept;
  }
  const { last, lastAt } = before;
  const gap = lastAt === undefined || now - lastAt > longestGapMs ? 0 : now - lastAt;
  const spentMs = last === undefined || last.inFlight === 0 ? 0 : before.stalledMs + gap;
  const hasMoved = hasMovedOn(last, reading);
  return {
    last: reading,
    lastAt: now,
    stalledMs: hasMoved || reading.inFlight === 0 ? 0 : spentMs,
    longestStepMs: hasMoved ? Math.max(before.longestStepMs, spentMs) : before.longestStepMs,
  };
}

/** True unless both readings tell the same numbers. */
export function hasMovedOn(before: WorkReading | undefined, after: WorkReading): boolean {
  return before?.decodeTotal !== after.decodeTotal || before.tokensTotal !== after.tokensTotal;
}

/** Why the engine counts as hung although it answers; undefined while it does not. */
export function findStall(
  { last, stalledMs, longestStepMs }: Work,
  limits: { readonly stallMs: number; readonly stallSteps: number },
): string | undefined {
  const limitMs = Math.max(limits.stallMs, limits.stallSteps * longestStepMs);
  if (last === undefined || stalledMs === 0 || stalledMs < limitMs) return undefined;
  const requests = last.inFlight === 1 ? "1 request" : `${last.inFlight} requests`;
  return `with ${requests} in work, no token was read or written for ${Math.round(stalledMs / 1_000)} s (limit ${Math.round(limitMs / 1_000)} s)`;
}
