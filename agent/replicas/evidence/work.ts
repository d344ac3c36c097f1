/** Progress of a busy engine: its gauges over time, and how long they did not change or could not be read. Pure. */
import type { EngineProgress } from "../../engines/driver/engine.ts";

/**
 * unknown: the reading failed. open: a request for the gauges is still pending, so an engine that answers only between two
 * steps has not finished a step since.
 */
export type ObservedWork = EngineProgress | "unknown" | "open";

/** Readings of the current run by this agent. */
export interface Work {
  readonly last?: EngineProgress;
  /** When `last` was read; absent after a failed reading, so that the time in between is not counted. */
  readonly lastAt?: number;
  /** When a request was last seen pending; absent if none is. */
  readonly openAt?: number;
  /** How long there has been work without a change of any counter. */
  readonly stalledMs: number;
  /** How long one request for the gauges has been pending. */
  readonly openMs: number;
  /** The longest such time that ended in progress or in an answer. */
  readonly longestStepMs: number;
}

export const NO_OBSERVED_WORK: Work = { stalledMs: 0, openMs: 0, longestStepMs: 0 };

/**
 * Adds a reading. Only the time between two consecutive readings is evidence: a gap longer than
 * `longestGapMs` means that the host slept or the agent was paused, and the engine with it.
 */
export function noteWork(before: Work, reading: ObservedWork, now: number, longestGapMs: number): Work {
  const { last, lastAt, openAt, openMs } = before;
  const since = (at: number | undefined): number =>
    at === undefined || now - at > longestGapMs ? 0 : now - at;
  if (typeof reading === "string") {
    const longestStepMs = Math.max(before.longestStepMs, openMs);
    return reading === "unknown"
      ? { ...before, lastAt: undefined, openAt: undefined, openMs: 0, longestStepMs }
      : { ...before, lastAt: undefined, openAt: now, openMs: openMs + since(openAt) };
  }
  const spentMs = last === undefined || last.inFlight === 0 ? 0 : before.stalledMs + since(lastAt);
  const hasMoved = hasProgressed(last, reading);
  return {
    last: reading,
    lastAt: now,
    stalledMs: hasMoved || reading.inFlight === 0 ? 0 : spentMs,
    openMs: 0,
    longestStepMs: Math.max(before.longestStepMs, openMs, hasMoved ? spentMs : 0),
  };
}

/** True if any counter differs. */
export function hasProgressed(before: EngineProgress | undefined, after: EngineProgress): boolean {
  return before?.decodeTotal !== after.decodeTotal || before.tokensTotal !== after.tokensTotal;
}

export interface StallLimits {
  readonly stallMs: number;
  readonly stallSteps: number;
}

/** Limit of one step, in milliseconds: longer for an engine that has taken long steps before. */
export function stallLimitMs({ longestStepMs }: Work, { stallMs, stallSteps }: StallLimits): number {
  return Math.max(stallMs, stallSteps * longestStepMs);
}

/** Why an engine that answers counts as hung; undefined if it does not. */
export function findStall(work: Work, limits: StallLimits): string | undefined {
  const limitMs = stallLimitMs(work, limits);
  const { last, stalledMs, openMs } = work;
  const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`;
  if (last !== undefined && stalledMs > 0 && stalledMs >= limitMs) {
    const requests = last.inFlight === 1 ? "1 request" : `${last.inFlight} requests`;
    return `${requests} in flight, and no token was processed for ${seconds(stalledMs)} (limit ${seconds(limitMs)})`;
  }
  if (openMs > 0 && openMs >= limitMs) {
    return `/health answers, and /metrics has not answered for ${seconds(openMs)} (limit ${seconds(limitMs)})`;
  }
  return undefined;
}
