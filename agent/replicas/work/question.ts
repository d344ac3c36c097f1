/** What every question to a running engine needs: whom to ask, for how long, and whether the answer still counts. */
import type { EngineDriver, EngineTarget } from "../../engines/engine.ts";
import type { RunnerContext } from "../context.ts";
import type { EngineFile } from "../files/engine-record.ts";
import type { ReplicaState } from "../state.ts";

const LOOPBACK = "127.0.0.1";

export interface Probe {
  readonly driver: EngineDriver;
  readonly target: EngineTarget;
  readonly file: EngineFile;
}

/** Undefined where there is no run or no driver for it. */
export function probeOf(state: ReplicaState, context: RunnerContext): Probe | undefined {
  const { file } = state;
  const driver = file === undefined ? undefined : context.runtimes.driver(file.runtime);
  if (file === undefined || driver === undefined) return undefined;
  const { apiKey } = state.run;
  const target = {
    host: LOOPBACK,
    port: file.port,
    mode: file.mode,
    ...(file.service === "" ? {} : { modelAlias: file.service }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
  return { driver, target, file };
}

/** An answer that comes after the run's end says nothing about the next one. */
export function isSameRun(state: ReplicaState, probe: Probe): boolean {
  return state.file?.runId === probe.file.runId;
}

/** The answer, or `late` once the time is over. */
export function within<T>(
  timeoutMs: number,
  context: RunnerContext,
  answer: Promise<T>,
  late: T,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = context.ports.clock.after(timeoutMs, () => resolve(late));
    answer.then(resolve, reject).finally(cancel);
  });
}
