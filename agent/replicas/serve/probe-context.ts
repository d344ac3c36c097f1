/** Context of a request to a running engine: driver, target, timeout, and a check that the answer still counts. */

import type { EngineDriver, EngineTarget } from "../../engines/driver/engine.ts";
import type { RunnerContext } from "../context/context.ts";
import { type LiveRun, liveRunOf } from "../state/run.ts";
import type { ReplicaState } from "../state/state.ts";

export interface ProbeContext {
  readonly driver: EngineDriver;
  readonly target: EngineTarget;
  /** The run at the time of the request. */
  readonly run: LiveRun;
}

/** Undefined if there is no run, or no driver for it. */
export function probeContextOf(state: ReplicaState, context: RunnerContext): ProbeContext | undefined {
  const run = liveRunOf(state);
  const driver = run === undefined ? undefined : context.runtimes.driver(run.file.runtime);
  if (run === undefined || driver === undefined) return undefined;
  const { apiKey, instance, file } = run;
  const target = { ...instance.target, mode: file.mode, apiKey };
  return { driver, target, run };
}

/** False once the run is no longer the current one: the answer says nothing about the next run. */
export function isSameRun(state: ReplicaState, { run }: ProbeContext): boolean {
  return liveRunOf(state, run.instance) !== undefined;
}

/** The answer, or `onTimeout` if none arrives in time. */
export function withTimeout<T>(
  timeoutMs: number,
  context: RunnerContext,
  answer: Promise<T>,
  onTimeout: T,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = context.ports.clock.after(timeoutMs, () => resolve(onTimeout));
    answer.then(resolve, reject).finally(cancel);
  });
}
