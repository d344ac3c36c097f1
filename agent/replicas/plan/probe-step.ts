/** When the next health probe is due: on its own schedule while the engine starts or fails, otherwise on the shared beat. */
import { nextBeat } from "../../beats.ts";
import type { Health, ProbeSettings } from "./observed.ts";
import type { ServeStep } from "./serve.ts";
import type { Timings } from "./timings.ts";

export interface DueProbe {
  readonly steps: readonly ServeStep[];
  readonly dueInMs: number;
}

/** For a proven engine: at the normal interval, and sooner after a failed probe. */
export function liveProbe(
  health: Health,
  probes: ProbeSettings | undefined,
  now: number,
  timings: Timings,
): DueProbe {
  const interval = probes?.intervalMs ?? timings.liveProbeMs;
  if (health.failuresInARow === 0) return probeAt(health, now, (at) => nextBeat(at, interval));
  const soon = Math.min(timings.failedProbeMs, interval);
  return probeAt(health, now, (at) => at + soon);
}

/** For an engine that is loading. */
export function startProbe(health: Health, everyMs: number, now: number): DueProbe {
  return probeAt(health, now, (at) => at + everyMs);
}

function probeAt({ lastProbeAt }: Health, now: number, after: (at: number) => number): DueProbe {
  const due = lastProbeAt === undefined ? now : after(lastProbeAt);
  if (now < due) return { steps: [], dueInMs: due - now };
  return { steps: [{ do: "probeHealth", because: "a health probe is due" }], dueInMs: after(now) - now };
}
