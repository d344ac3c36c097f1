/**
 * Whether a running engine must be killed: its start takes too long, or there is evidence that it serves no
 * requests.
 */
import { type EndStep, planForcedStop } from "../ending.ts";
import type { Desired, ObservedReplica, ProbeSettings, RunRecord } from "../observed.ts";
import type { ForcedStop, ReplicaPlan, Withdraw } from "../step.ts";
import { engineStartDeadline, type Timings } from "../timings.ts";
import { findStall } from "./work.ts";

/** All that the plan of a running engine is made from. */
export interface EvidenceInput {
  readonly desired: Desired;
  readonly observed: ObservedReplica;
  readonly record: RunRecord;
  readonly now: number;
  readonly timings: Timings;
}

export interface ForcedStopCause {
  readonly why: ForcedStop;
  readonly because: string;
}

/** The plan to kill it, if there is a reason to. */
export function planKill(frame: EvidenceInput): ReplicaPlan<EndStep | Withdraw> | undefined {
  const trouble = findTrouble(frame);
  return trouble === undefined
    ? undefined
    : beginForcedStop(trouble, frame.observed, frame.now, frame.timings);
}

/** The first plan of a forced stop. */
export function beginForcedStop(
  { why, because }: ForcedStopCause,
  observed: ObservedReplica,
  now: number,
  timings: Timings,
): ReplicaPlan<EndStep | Withdraw> {
  const startedAt = observed.record?.stop?.startedAt ?? now;
  const next = planForcedStop({ why, startedAt, deadlineAt: now, because }, observed, now, timings);
  const begin: EndStep = { do: "beginStop", why, deadlineAt: now, because };
  return { ...next, steps: [begin, ...next.steps] };
}

/** Evidence that a proven engine no longer answers: it counts while the engine serves and while it drains. */
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

function findTrouble(frame: EvidenceInput): ForcedStopCause | undefined {
  const { desired, observed, record, now, timings } = frame;
  const { health, request, suspicion } = observed;
  if (record.readyAt === undefined && health.healthyAt === undefined) {
    if (now < engineStartLimit(frame)) return undefined;
    const seconds = Math.round((now - record.startedAt) / 1_000);
    const startMs = desired.probes?.startMs;
    const own =
      startMs === undefined ? "" : `, and its service asks for ${startMs / 1_000} s (probeOverrides)`;
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
 * A start time from the service is used as it is; the default scales with the weights. How far a shared daemon has come with
 * bringing a model to its disk and into memory cannot be seen, so it has all the time that progress would give it.
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

/** The agent knows the size of a file on its host; the controller may not. */
export function weightsBytes({ desired, observed: { model } }: EvidenceInput): number {
  return Math.max(desired.weightsBytes, model.at === "stored" ? model.sizeBytes : 0);
}
