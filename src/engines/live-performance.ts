/** Live performance of engines: means over a sliding window of readings, and the sum over replicas. Pure. */
import type { Performance, TotalPerformance } from "../api/fields/performance.ts";
import { isDeepEqual } from "../util/deep-equal.ts";
import { reportedSpeed } from "./speed.ts";

export const PERFORMANCE_WINDOW_MS = 60_000;
/** Factor of the window. After a longer gap the means end and a new window begins, so that a few missed readings change neither. */
const MAX_GAP_WINDOWS = 2;
/** Minimum interval between two changes of the performance in a status. */
export const PERFORMANCE_WRITE_MS = 30_000;

/** One reading of an engine or of the gate in front of it. Values that it does not report are absent. */
export interface LoadReading {
  /** On the monotonic clock. */
  readonly at: number;
  /** Requests that are processed or queued. */
  readonly inFlight?: number | undefined;
  /** Counters since the start of the engine or gate, like the following. */
  readonly generatedTokens?: number | undefined;
  readonly firstTokens?: number | undefined;
  readonly firstTokenSeconds?: number | undefined;
}

const COUNTERS = ["generatedTokens", "firstTokens", "firstTokenSeconds"] as const;
const FIELDS = ["tokensPerSecond", "timeToFirstTokenSeconds", "requestsInFlight"] as const;

/** Readings of one engine in order, without gaps longer than two windows. */
export type LoadWindow = readonly LoadReading[];

/** Adds a reading, and drops those that the window no longer needs. The window restarts if a counter or the clock has gone back. */
export function addReading(
  before: LoadWindow,
  reading: LoadReading,
  windowMs = PERFORMANCE_WINDOW_MS,
): LoadWindow {
  const last = before.at(-1);
  const isNext =
    last !== undefined &&
    reading.at > last.at &&
    reading.at - last.at <= MAX_GAP_WINDOWS * windowMs &&
    COUNTERS.every((name) => !((reading[name] ?? 0) < (last[name] ?? 0)));
  if (!isNext) return [reading];
  const readings = [...before, reading];
  // The newest reading that is as old as the window is its beginning.
  const begin = readings.findLastIndex(({ at }) => at <= reading.at - windowMs);
  return readings.slice(Math.max(0, begin));
}

/**
 * The means over the window, with zeros for an idle engine. Undefined until there are two readings; empty if the last one is
 * older than two windows.
 */
export function meanPerformance(
  readings: LoadWindow,
  now: number,
  windowMs = PERFORMANCE_WINDOW_MS,
): Performance | undefined {
  const [first] = readings;
  const last = readings.at(-1);
  if (last !== undefined && now - last.at > MAX_GAP_WINDOWS * windowMs) return {};
  if (first === undefined || last === undefined || first === last) return undefined;
  const spanMs = last.at - first.at;
  const grown = (name: (typeof COUNTERS)[number]): number | undefined => {
    const [from, to] = [first[name], last[name]];
    return from === undefined || to === undefined ? undefined : to - from;
  };
  const tokens = grown("generatedTokens");
  const firstTokens = grown("firstTokens") ?? 0;
  const firstTokenSeconds = grown("firstTokenSeconds");
  return {
    tokensPerSecond: tokens === undefined ? undefined : (tokens * 1_000) / spanMs,
    timeToFirstTokenSeconds:
      firstTokens === 0 || firstTokenSeconds === undefined ? undefined : firstTokenSeconds / firstTokens,
    requestsInFlight: meanInFlight(readings, spanMs),
  };
}

/** Weighted by time, because a busy engine is read more often than an idle one. */
function meanInFlight(readings: LoadWindow, spanMs: number): number | undefined {
  let sum = 0;
  for (const [index, { at, inFlight }] of readings.entries()) {
    const before = readings[index - 1];
    if (before !== undefined) sum += (inFlight ?? Number.NaN) * (at - before.at);
  }
  return Number.isNaN(sum) ? undefined : sum / spanMs;
}

/**
 * Adds up speeds and requests; the requests are known only if those of every replica are. The time to the first token is the mean
 * over the replicas that have had requests.
 */
export function sumPerformance(replicas: readonly Performance[]): TotalPerformance {
  const valuesOf = (field: (typeof FIELDS)[number]) =>
    replicas.map((one) => one[field]).filter((value) => value !== undefined);
  const sumOf = (values: readonly number[]): number | undefined =>
    values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
  const requests = valuesOf("requestsInFlight");
  const times = valuesOf("timeToFirstTokenSeconds");
  const seconds = sumOf(times);
  return {
    tokensPerSecond: sumOf(valuesOf("tokensPerSecond")),
    timeToFirstTokenSeconds: seconds === undefined ? undefined : seconds / times.length,
    ...(requests.length < replicas.length
      ? { requestsUnknown: true }
      : { requestsInFlight: sumOf(requests) ?? 0 }),
  };
}

/** Performance for a status, in coarse steps. Undefined if nothing has happened in the window, so that idle engines cost no writes. */
export function reportedPerformance(
  reported: TotalPerformance | undefined,
  exact: TotalPerformance,
): TotalPerformance | undefined {
  const { requestsUnknown } = exact;
  if (requestsUnknown !== true && FIELDS.every((field) => !exact[field])) return undefined;
  const rounded = FIELDS.flatMap((field) => {
    const value = exact[field];
    return value === undefined ? [] : [[field, reportedSpeed(reported?.[field], value)] as const];
  });
  return { ...Object.fromEntries(rounded), requestsUnknown };
}

/** The performance to write, which is `reported` if nothing has to be written, and when a held-back change is due. `writtenAt`: time of the last change, on the clock of `now`. */
export function duePerformance(
  reported: TotalPerformance | undefined,
  exact: TotalPerformance,
  {
    writtenAt,
    now,
    everyMs = PERFORMANCE_WRITE_MS,
  }: { readonly writtenAt: number | undefined; readonly now: number; readonly everyMs?: number },
): { readonly performance: TotalPerformance | undefined; readonly dueInMs?: number } {
  const performance = reportedPerformance(reported, exact);
  const dueInMs = writtenAt === undefined ? 0 : writtenAt + everyMs - now;
  if (isDeepEqual(performance, reported)) return { performance: reported };
  return dueInMs <= 0 ? { performance } : { performance: reported, dueInMs };
}
