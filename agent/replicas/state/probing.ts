/** Results of the requests to a running engine and of scanning its log. Pure: each transition returns the next value. */
import { addReading, type LoadReading, type LoadWindow } from "../../../src/engines/live-performance.ts";
import type { Generated } from "../../../src/engines/speed.ts";
import type { Activity } from "../../../src/macos/living-process.ts";
import type { HealthRecord, RequestProof, RouteHealth } from "../evidence/observed.ts";
import type { Suspicion } from "../evidence/suspicion.ts";
import { hasProgressed, NO_OBSERVED_WORK, noteWork, type ObservedWork, type Work } from "../evidence/work.ts";

/** Results of probes. */
export interface Probing {
  readonly health: HealthRecord;
  readonly route: RouteHealth;
  readonly request: RequestProof;
  /** Size of the log at the last probe, while the engine starts. */
  readonly logBytes: number;
  /** Size of the log before the real request that succeeded: earlier errors no longer count. */
  readonly provenTo?: number;
}

/** Work of a serving engine. */
export interface Workload {
  readonly work: Work;
  /** When the gauges were last read, on the monotonic clock. */
  readonly gaugesAt?: number;
  /** Counters at the last measurement of speed. The first measurement of an adopted engine covers its whole run. */
  readonly measured?: Generated;
  /** Counters at the last reading. */
  readonly generated?: Generated;
  /** Readings of the last minute for the live performance: of the engine, and of the gate in front of it. */
  readonly load: Readonly<Record<LoadSource, LoadWindow>>;
  /** Since when the engine has had no work, on the monotonic clock; absent while it has, or before the first reading. */
  readonly idleSince?: number;
}

export type LoadSource = "engine" | "gate";

/** State of the scan of the engine's log for errors. */
export interface LogScan {
  readonly suspicion: Suspicion;
  /** End of the part that was scanned; absent before the first scan. */
  readonly seenTo?: number;
  /** True once an Event has reported the logged errors. */
  readonly isReported?: boolean;
}

export const UNPROBED: Probing = {
  health: { failuresInARow: 0 },
  request: { at: "none" },
  route: {},
  logBytes: 0,
};
const NO_LOAD: Workload["load"] = { engine: [], gate: [] };
export const NO_WORKLOAD: Workload = { work: NO_OBSERVED_WORK, load: NO_LOAD };

/** Adds the result of a health probe. `silent`: activity of the process, if the probe was not answered. */
export function noteHealth(
  before: Probing,
  answer: "healthy" | { readonly message: string; readonly silent?: Activity },
  at: { readonly now: number; readonly wasReady: boolean; readonly logBytes: number },
): Probing {
  const { now, wasReady, logBytes } = at;
  const { healthyAt, failuresInARow, progressAt: lastProgressAt } = before.health;
  // A growing log is a sign of progress that every engine gives.
  const hasGrown = !wasReady && logBytes > before.logBytes && before.logBytes > 0;
  const common = { lastProbeAt: now, progressAt: hasGrown ? now : lastProgressAt };
  if (answer === "healthy")
    return { ...before, logBytes, health: { ...common, failuresInARow: 0, healthyAt: healthyAt ?? now } };
  const wasHealthy = healthyAt !== undefined || wasReady;
  const health: HealthRecord = {
    ...common,
    healthyAt,
    failuresInARow: wasHealthy ? failuresInARow + 1 : 0,
    lastMessage: answer.message,
    silent: wasHealthy ? answer.silent : undefined,
  };
  return { ...before, logBytes, health };
}

/** `problem`: why clients cannot reach the engine through the gate; undefined if they can. */
export function noteRoute(before: Probing, problem: string | undefined, now: number): Probing {
  const failingSince = before.route.failingSince ?? now;
  return {
    ...before,
    route: problem === undefined ? { checkedAt: now } : { checkedAt: now, failingSince, problem },
  };
}

export function noteFailedRequest({ request, ...rest }: Probing, message: string, now: number): Probing {
  const tries = request.at === "failed" ? request.tries + 1 : 1;
  return { ...rest, request: { at: "failed", tries, lastAt: now, message } };
}

export function noteReading(
  before: Workload,
  seen: ObservedWork,
  now: number,
  longestGapMs: number,
): Workload {
  const { work, idleSince } = before;
  const isIdle = typeof seen !== "string" && seen.inFlight === 0 && !hasProgressed(work.last, seen);
  return {
    ...before,
    idleSince: isIdle ? (idleSince ?? now) : undefined,
    work: noteWork(work, seen, now, longestGapMs),
  };
}

/** Adds a reading for the live performance. */
export function noteLoad(
  before: Workload,
  source: LoadSource,
  reading: LoadReading,
  windowMs: number,
): Workload {
  const { load } = before;
  return { ...before, load: { ...load, [source]: addReading(load[source], reading, windowMs) } };
}

/** The engine was paused with this process: earlier answers are no evidence. */
export function forgetAnswers(before: Probing): Probing {
  const health = { ...before.health, lastProbeAt: undefined, silent: undefined, failuresInARow: 0 };
  return { ...before, route: { ...before.route, checkedAt: undefined }, health };
}

export function forgetReadings(before: Workload): Workload {
  return {
    ...before,
    load: NO_LOAD,
    gaugesAt: undefined,
    work: { ...before.work, lastAt: undefined, openAt: undefined },
  };
}
