/** Decides whether a running engine must be killed: its start takes too long, or there is evidence that it serves no requests. */
import type { ForcedStopCause } from "../end/plan.ts";
import type { Desired, ObservedReplica, ProbeSettings, RunRecord } from "../evidence/observed.ts";
import type { Timings } from "../evidence/timings.ts";
import { findStall } from "../evidence/work.ts";

/** Input of every plan for a running engine. */
export interface EvidenceInput {
  readonly desired: Desired;
  readonly observed: ObservedReplica;
  readonly record: RunRecord;
  readonly now: number;
  readonly timings: Timings;
}

/** Evidence that a proven engine no longer answers. It is used while the engine serves and while it drains. */
export function findHang(
  { health, work }: ObservedReplica,
  probes: ProbeSettings | undefined,
  timings: Timings,
): ForcedStopCause | undefined {
  if (health.silent === "stopped") {
    return { why: "hung", because: `its process is stopped (SIGSTOP); ${health.lastMessage}` };
  }
  if (health.failuresInARow >= (probes?.failures ?? timings.failuresUntilHung)) {
    const last = health.lastMessage === undefined ? "" : `, the last: ${health.lastMessage}`;
    return { why: "hung", because: `${health.failuresInARow} consecutive health probes failed${last}` };
  }
  const stall = findStall(work, timings);
  return stall === undefined ? undefined : { why: "hung", because: stall };
}

export function findFailure(frame: EvidenceInput): ForcedStopCause | undefined {
  const { desired, observed, record, now, timings } = frame;
  const { health, request, suspicion } = observed;
  if (record.readyAt === undefined && health.healthyAt === undefined) {
    if (now < engineStartLimit(frame)) return undefined;
    const seconds = Math.round((now - record.startedAt) / 1_000);
    const startMs = desired.probes?.startMs;
    const own =
      startMs === undefined ? "" : `, and its service requires ${startMs / 1_000} s (probeOverrides)`;
    const last = health.lastMessage === undefined ? "" : `; the last health probe: ${health.lastMessage}`;
    return { why: "neverHealthy", because: `it was not healthy ${seconds} s after its start${own}${last}` };
  }
  const hang = findHang(observed, desired.probes, timings);
  if (hang !== undefined) return hang;
  if (suspicion.at === "confirmed") {
    const because = `its log says "${suspicion.line}", and a real request failed: ${suspicion.message}`;
    return { why: "degraded", because };
  }
  if (record.readyAt === undefined && request.at === "failed" && request.tries >= timings.requestTries) {
    const because = `${request.tries} real requests failed: ${request.message}`;
    return { why: "requestFailed", because };
  }
  return undefined;
}

/**
 * A start time from the service is used unchanged; the default scales with the weights. The agent cannot see the progress of
 * a shared daemon that downloads or loads a model, so the daemon gets the time that continuous progress would allow.
 */
export function engineStartLimit(frame: EvidenceInput): number {
  const { desired, observed, record, now, timings } = frame;
  const startMs = desired.probes?.startMs;
  const scaled = startMs === undefined ? timings : { ...timings, startBaseMs: startMs, startPerGiBMs: 0 };
  return engineStartDeadline(scaled, {
    startedAt: record.startedAt,
    weightsBytes: weightsBytes(frame),
    progressAt: observed.run.at === "starting" ? now : observed.health.progressAt,
  });
}

/** The agent knows the size of a file on its host, even if the controller does not. */
export function weightsBytes({ desired, observed: { model } }: EvidenceInput): number {
  return Math.max(desired.weightsBytes, model.at === "stored" ? model.sizeBytes : 0);
}

const GIB = 1024 ** 3;

/** Deadline of a start that began at `startedAt`. Progress moves the deadline, up to the maximum factor. */
export function engineStartDeadline(
  timings: Timings,
  start: {
    readonly startedAt: number;
    readonly weightsBytes: number;
    readonly progressAt: number | undefined;
  },
): number {
  const allowed = timings.startBaseMs + Math.ceil((start.weightsBytes / GIB) * timings.startPerGiBMs);
  const extended = start.progressAt === undefined ? 0 : start.progressAt + allowed / 2;
  const latest = start.startedAt + allowed * timings.startMaxFactor;
  return Math.min(latest, Math.max(start.startedAt + allowed, extended));
}

/** Timeout of one real request. */
export function requestTimeoutMs(timings: Timings, weightsBytes: number): number {
  return timings.requestBaseMs + Math.ceil((weightsBytes / GIB) * timings.startPerGiBMs);
}
