/** Reads the gauges of all engines concurrently and in bounded time: a scrape must not wait for a dead engine. */

import type { RunnerContext } from "../context/context.ts";
import type { EngineReading } from "../state/counts.ts";
import { runOf } from "../state/run.ts";
import type { ReplicaState } from "../state/state.ts";
import { type ProbeContext, probeContextOf, withTimeout } from "./probe-context.ts";

/** The gauges of an engine that cannot be read are "unknown"; engines without gauges are omitted. */
export function readEngines(context: RunnerContext, timeoutMs: number): Promise<readonly EngineReading[]> {
  const readings: Promise<EngineReading>[] = [];
  for (const state of context.states.values()) {
    const probe = readable(state, context);
    if (probe !== undefined) readings.push(read(state, probe, context, timeoutMs));
  }
  return Promise.all(readings);
}

/** Undefined if the engine has no gauges, as while it loads its weights. */
function readable(state: ReplicaState, context: RunnerContext): ProbeContext | undefined {
  const run = runOf(state);
  const isUp = run?.instance.state().at === "running" && run.file.readyAtMs !== undefined;
  const probe = isUp ? probeContextOf(state, context) : undefined;
  return probe?.driver.gauges === undefined ? undefined : probe;
}

async function read(
  state: ReplicaState,
  { driver, target, run }: ProbeContext,
  context: RunnerContext,
  timeoutMs: number,
): Promise<EngineReading> {
  const { uid } = state;
  // The last health probe has failed, so the engine would not answer.
  if (run.probing.health.failuresInARow > 0 || driver.gauges === undefined) return { uid, gauges: "unknown" };
  const pending = driver.gauges(target, { timeoutMs }).catch(() => "unknown" as const);
  return { uid, gauges: await withTimeout(timeoutMs, context, pending, "unknown") };
}
