/** Checks every invariant periodically during the run, and prints each violation once. */
import type { Violation } from "./invariants/invariant.ts";
import { INVARIANTS } from "./invariants/registry.ts";
import type { Recorder } from "./observe/recorder.ts";
import type { Recording } from "./observe/recording.ts";
import { explain } from "./report/explain.ts";

const EVERY_MS = 15_000;
/** Another watch may report a recent event a moment later. */
const SETTLED_MS = 3_000;

export interface Judge {
  readonly stop: () => void;
  /** Judges the whole recording once more. */
  readonly finish: () => readonly Violation[];
}

export function startJudge(recorder: Recorder, print: (line: string) => void): Judge {
  const printed = new Set<string>();
  const look = (): void => {
    const recording = recorder.recording();
    const until = recorder.now() - SETTLED_MS;
    for (const violation of judge(
      recording.filter(({ at }) => at <= until),
      until,
    )) {
      const key = `${violation.invariant}/${Math.round(violation.at / 1_000)}/${violation.about.join()}`;
      if (printed.has(key)) continue;
      printed.add(key);
      print(explain(violation, recording));
    }
  };
  const timer = setInterval(look, EVERY_MS);
  return {
    stop: () => clearInterval(timer),
    finish: () => {
      clearInterval(timer);
      return judge(recorder.recording(), recorder.now());
    },
  };
}

/** All violations of a recording, by invariant. Pure. */
export function judge(recording: Recording, now: number): readonly Violation[] {
  // Some events carry a time before that of their writing.
  const ordered = [...recording].sort((one, other) => one.at - other.at);
  return INVARIANTS.flatMap(({ check }) => check(ordered, now));
}
