/** What the requests to a running engine, its log and its Secrets have shown so far. Pure values: each transition returns the next one. */
import type { Generated } from "../../../src/engines/speed.ts";
import type { Activity } from "../../../src/macos/living-process.ts";
import type { Suspicion } from "../evidence/suspicion.ts";
import { hasProgressed, NO_OBSERVED_WORK, noteWork, type ObservedWork, type Work } from "../evidence/work.ts";
import type { HealthRecord, RequestProof, RouteHealth } from "../observed.ts";

/** Whether it answers. */
export interface Probing {
  readonly health: HealthRecord;
  readonly route: RouteHealth;
  readonly request: RequestProof;
  /** While it starts: how much it had logged at the last probe. */
  readonly logBytes: number;
  /** How much it had logged before the real request that succeeded: errors before that no longer count. */
  readonly provenTo?: number;
}

/** What a serving engine gets done. */
export interface Workload {
  readonly work: Work;
  /** When the gauges were last read, on the monotonic clock. */
  readonly gaugesAt?: number;
  /** What it had generated when its speed was last measured. An adopted engine's whole life is one measurement. */
  readonly measured?: Generated;
  /** As last read. */
  readonly generated?: Generated;
  /** Since when it has had no work, on the monotonic clock; absent while it has, or none was read. */
  readonly idleSince?: number;
}

/** What its log says of errors. */
export interface LogScan {
  readonly suspicion: Suspicion;
  /** Up to where the log was searched; absent before the first time. */
  readonly seenTo?: number;
  /** An Event has reported its logged errors. */
  readonly isReported?: boolean;
}

export const UNPROBED: Probing = {
  health: { failuresInARow: 0 },
  request: { at: "none" },
  route: {},
  logBytes: 0,
};
export const NO_WORKLOAD: Workload = { work: NO_OBSERVED_WORK };

/** A health probe was answered, or was not: `silent` says what the process was doing then. */
export function noteHealth(
  before: Probing,
  answer: "healthy" | { readonly message: string; readonly silent?: Activity },
  {
    now,
    wasReady,
    logBytes,
  }: { readonly now: number; readonly wasReady: boolean; readonly logBytes: number },
): Probing {
  const { healthyAt, failuresInARow, progressAt: lastProgressAt } = before.health;
  // A log that grows is the sign of progress that every engine gives.
  const hasGrown = !wasReady && logBytes > before.logBytes && before.logBytes > 0;
  const kept = { lastProbeAt: now, progressAt: hasGrown ? now : lastProgressAt };
  if (answer === "healthy")
    return { ...before, logBytes, health: { ...kept, failuresInARow: 0, healthyAt: healthyAt ?? now } };
  const wasHealthy = healthyAt !== undefined || wasReady;
  const health: HealthRecord = {
    ...kept,
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

/** The engine was paused with this process: what was seen before is no evidence. */
export function forgetAnswers(before: Probing): Probing {
  const { lastProbeAt: _probe, silent: _silent, ...health } = before.health;
  const { checkedAt: _asked, ...route } = before.route;
  return { ...before, route, health: { ...health, failuresInARow: 0 } };
}

export function forgetReadings({ gaugesAt: _gauges, ...before }: Workload): Workload {
  const { lastAt: _read, openAt: _open, ...work } = before.work;
  return { ...before, work };
}
