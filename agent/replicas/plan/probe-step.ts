/** When the next health probe is due: at its own times while the engine starts or fails, on the shared beat in calm. */
import { nextBeat } from "../../beats.ts";
import type { Health, ProbeSettings } from "./observed.ts";
import type { ServeStep } from "./serve.ts";
import type { Timings } from "./timings.ts";

export interface DueProbe {
  readonly steps: readonly ServeStep[];
  readonly dueInMs: number;
}

/** Of an engine that has been proven: calmly, and sooner after a failed one. */
export function liveProbe(
  health: Health,
  probes: ProbeSettings | undefined,
  now: number,
  timings: Timings,
): DueProbe {
  const calm = probes?.intervalMs ?? timings.liveProbeMs;
  if (health.failuresInARow === 0) return probeAt(health, now, (at) => nextBeat(at, calm));
  const soon = Math.min(timings.failedProbeMs, calm);
  return probeAt(health, now, (at) => at + soon);
}

/** Of one that loads. */
export function startProbe(health: Health, everyMs: number, now: number): DueProbe {
  return probeAt(health, now, (at) => at + everyMs);
}

function probeAt({ lastProbeAt }: Health, now: number, after: (at: number) => number): DueProbe {
  const due = lastProbeAt === undefined ? now : after(lastProbeAt);
  if (now < due) return { steps: [], dueInMs: due - now };
  return { steps: [{ do: "probeHealth", because: "a health probe is due" }], dueInMs: after(now) - now };
}
