/** Tokens per second of an engine with a model, measured from its counters, smoothed, and reported in coarse steps. Pure. */

/** Counters of an engine since its start: generated tokens, and the time that it took. */
export interface Generated {
  readonly tokens: number;
  readonly seconds: number;
}

export const NOTHING_GENERATED: Generated = { tokens: 0, seconds: 0 };

/** Minimum amounts for a representative measurement. */
const MIN_TOKENS = 100;
const MIN_SECONDS = 1;
/** Responses with a single token take no time on the engine's clock, so faster measurements are invalid. */
const MAX_PER_SECOND = 20_000;
/** Weight of a measurement relative to all earlier ones. */
const WEIGHT = 0.2;
const STEP = 0.1;

export interface SpeedMeasured {
  /** Counters at which the next measurement starts. */
  readonly counted: Generated;
  /** Absent until enough was generated. */
  readonly tokensPerSecond?: number;
}

/** The speed between two readings of the counters, if enough was generated between them. */
export function measureSpeed(counted: Generated, now: Generated): SpeedMeasured {
  const tokens = now.tokens - counted.tokens;
  const seconds = now.seconds - counted.seconds;
  // Counters only increase; otherwise they belong to another engine.
  if (tokens < 0 || seconds < 0) return { counted: now };
  if (tokens < MIN_TOKENS || seconds < MIN_SECONDS) {
    const isAbsurd = tokens > MAX_PER_SECOND * MIN_SECONDS;
    return { counted: isAbsurd ? now : counted };
  }
  const tokensPerSecond = tokens / seconds;
  return tokensPerSecond > MAX_PER_SECOND ? { counted: now } : { counted: now, tokensPerSecond };
}

/** Combines the newest measurement with the earlier ones. */
export function smoothSpeed(known: number | undefined, measured: number): number {
  return known === undefined ? measured : known + WEIGHT * (measured - known);
}

/** The reported speed, rounded to two digits. It changes only if the speed has changed by more than a tenth. */
export function reportedSpeed(reported: number | undefined, exact: number): number {
  if (reported !== undefined && Math.abs(exact - reported) <= STEP * reported) return reported;
  return Number(exact.toPrecision(2));
}
