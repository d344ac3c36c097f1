/** Tokens per second of an engine with a model: from its counters, smoothed, and reported in coarse steps. Pure. */

/** Counters of an engine since its start: tokens generated, and the time that was spent on generating them. */
export interface Generated {
  readonly tokens: number;
  readonly seconds: number;
}

export const NOTHING_GENERATED: Generated = { tokens: 0, seconds: 0 };

/** Less says more about the moment than about the machine. */
const MIN_TOKENS = 100;
const MIN_SECONDS = 1;
/** Replies of one token take no time by the engine's clock. Whoever asks for nothing else measures no speed. */
const MAX_PER_SECOND = 20_000;
/** What one measurement weighs against all before it. */
const SHARE_OF_NEWEST = 0.2;
const STEP = 0.1;

export interface SpeedMeasured {
  /** What was counted up to here; the next measurement begins there. */
  readonly counted: Generated;
  /** Absent while too little was generated since. */
  readonly tokensPerSecond?: number;
}

/** The speed between two readings of the counters, once there is enough between them. */
export function measureSpeed(counted: Generated, now: Generated): SpeedMeasured {
  const tokens = now.tokens - counted.tokens;
  const seconds = now.seconds - counted.seconds;
  // Counters only grow; where they do not, they belong to another engine.
  if (tokens < 0 || seconds < 0) return { counted: now };
  if (tokens < MIN_TOKENS || seconds < MIN_SECONDS) {
    const isAbsurd = tokens > MAX_PER_SECOND * MIN_SECONDS;
    return { counted: isAbsurd ? now : counted };
  }
  const tokensPerSecond = tokens / seconds;
  return tokensPerSecond > MAX_PER_SECOND ? { counted: now } : { counted: now, tokensPerSecond };
}

/** The newest measurement in what was known before. */
export function smoothSpeed(known: number | undefined, measured: number): number {
  return known === undefined ? measured : known + SHARE_OF_NEWEST * (measured - known);
}

/** The reported speed: two digits, and the same as before until it has moved by more than a tenth. */
export function reportedSpeed(reported: number | undefined, exact: number): number {
  if (reported !== undefined && Math.abs(exact - reported) <= STEP * reported) return reported;
  return Number(exact.toPrecision(2));
}
