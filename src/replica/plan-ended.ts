/** The engine ended by itself, or was killed for being useless: out of the Service first, then written down and held back. */
import { killLeftovers } from "./ending.ts";
import { isAnnounced } from "./evidence/exposure.ts";
import type { Observed } from "./observed.ts";
import { isForced, type ReplicaPlan, type Step } from "./step.ts";
import type { Timings } from "./timings.ts";

/** Plans for a wanted replica whose main process has ended. */
export function planEnded(observed: Observed, now: number, timings: Timings): ReplicaPlan {
  const { record, crashes, run, slice } = observed;
  const steps: Step[] = [];
  if (isAnnounced(slice)) steps.push({ do: "withdraw", because: "the engine has ended" });
  const wasOurs = record?.stop !== undefined && !isForced(record.stop.why);
  const isRecorded = record === undefined || crashes.recordedRunId === record.runId || wasOurs;
  if (!isRecorded) steps.push({ do: "recordExit", because: "its exit and last log lines belong in status" });
  const isGone = run.at === "gone";
  if (isGone) steps.push({ do: "forgetRun", because: "nothing of the engine is left" });
  else steps.push(...killLeftovers(observed, now, timings));
  const exit = isRecorded ? crashes.lastExit : undefined;
  return {
    phase: "Backoff",
    reason: exit?.reason ?? (isGone ? "EngineEndUnknown" : "EndingLeftovers"),
    message: exit?.message ?? "the engine ended",
    steps,
    recheckAfterMs: isGone ? timings.keeperMs : timings.killRepeatMs,
  };
}
