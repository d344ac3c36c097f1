/** Schedule of health probes: individual while the engine starts or fails, otherwise on the ticks that all engines share. */
import { measureSpeed } from "../../../src/engines/speed.ts";
import { nextAlignedTime } from "../../../src/util/shared-ticks.ts";
import type { HealthRecord, ObservedReplica, ProbeSettings } from "../evidence/observed.ts";
import type { Timings } from "../evidence/timings.ts";
import type { Because } from "../state/step.ts";

/** Steps that run together with a health probe, so that an idle agent wakes once for all of them. */
export type ProbeTickStep = Because & {
  readonly do: "probeHealth" | "restoreFiles" | "rotateSecrets" | "checkRoute" | "scanLog" | "measureSpeed";
};

export interface DueProbe {
  readonly steps: readonly ProbeTickStep[];
  readonly dueInMs: number;
}

/**
 * For a proven engine: at the normal interval, sooner after a failed probe, immediately if its process is asleep instead of
 * answering. A process that runs or waits for the disk may only be slow, for example on a host that swaps.
 */
export function livenessProbe(
  health: HealthRecord,
  probes: ProbeSettings | undefined,
  now: number,
  timings: Timings,
): DueProbe {
  const interval = probes?.intervalMs ?? timings.liveProbeMs;
  if (health.failuresInARow === 0) return probeAt(health, now, (at) => nextAlignedTime(at, interval));
  const soon = Math.min(timings.failedProbeMs, interval);
  if (isAsleep(health, probes, timings)) return { steps: [probe()], dueInMs: soon };
  return probeAt(health, now, (at) => at + soon);
}

/** Timeout of a probe: shorter once the engine was asleep during a probe with the full `timeoutMs`. */
export function probeTimeoutMs(
  health: HealthRecord,
  probes: ProbeSettings | undefined,
  timeoutMs: number,
  timings: Timings,
): number {
  return isAsleep(health, probes, timings) ? Math.ceil(timeoutMs * timings.repeatedProbeShare) : timeoutMs;
}

/** A service that allows more failed probes than the default keeps the normal interval and timeout. */
function isAsleep({ silent }: HealthRecord, probes: ProbeSettings | undefined, timings: Timings): boolean {
  return silent === "asleep" && (probes?.failures ?? 0) <= timings.failuresUntilHung;
}

/** True if a probe timed out later than it should have: this process was delayed, so the timeout proves nothing. */
export function isAgentDelay(tookMs: number, timeoutMs: number, timings: Timings): boolean {
  return tookMs > timeoutMs + timings.ownDelayMs;
}

/** For an engine that is loading. */
export function startProbe(health: HealthRecord, everyMs: number, now: number): DueProbe {
  return probeAt(health, now, (at) => at + everyMs);
}

function probeAt({ lastProbeAt }: HealthRecord, now: number, after: (at: number) => number): DueProbe {
  const dueAt = lastProbeAt === undefined ? now : after(lastProbeAt);
  if (now < dueAt) return { steps: [], dueInMs: dueAt - now };
  return { steps: [probe()], dueInMs: after(now) - now };
}

/** Adds the steps that run together with a probe. */
export function withTickSteps(
  probe: DueProbe,
  observed: ObservedReplica,
  now: number,
  timings: Timings,
): DueProbe {
  if (probe.steps.length === 0) return probe;
  const { record, secrets, route, generated } = observed;
  const steps: ProbeTickStep[] = [
    { do: "restoreFiles", because: "the next agent needs its files to adopt the engine" },
    ...probe.steps,
  ];
  const secretsMs = secrets?.problem === undefined ? timings.secretsMs : timings.correctionMs;
  if (secrets !== undefined && now - secrets.at >= secretsMs)
    steps.push({ do: "rotateSecrets", because: "keys or certificate may have changed" });
  if (route !== undefined)
    steps.push({ do: "checkRoute", because: "clients reach the engine through the gate" });
  if (record?.readyAt !== undefined)
    steps.push({ do: "scanLog", because: "the engine may have logged errors since the last scan" });
  if (
    generated !== undefined &&
    measureSpeed(generated.measured, generated.read).counted !== generated.measured
  )
    steps.push({ do: "measureSpeed", because: "enough was generated since the last measurement" });
  return { ...probe, steps };
}

function probe(): ProbeTickStep {
  return { do: "probeHealth", because: "a health probe is due" };
}

/** Interval between probes of a starting engine: short in the first second, so that a small model is announced as soon as it is ready. */
export function startProbeMs(timings: Timings, ranForMs: number): number {
  return Math.min(timings.startProbeMs, Math.max(timings.firstProbeMs, ranForMs / 40));
}
