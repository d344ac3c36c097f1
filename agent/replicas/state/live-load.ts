/** Live performance of a serving engine, from the readings of its health probes. */
import type { Performance } from "../../../src/api/fields/performance.ts";
import { type LoadReading, meanPerformance } from "../../../src/engines/live-performance.ts";
import { defined } from "../../../src/util/defined.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { Timings } from "../evidence/timings.ts";
import { type LoadSource, NO_WORKLOAD, noteLoad } from "./probing.ts";
import { type LiveRun, runOf, servedOf, updateServed } from "./run.ts";
import type { ReplicaState } from "./state.ts";

/** Adds a reading for the live performance. */
export function noteLiveLoad(
  state: ReplicaState,
  { instance }: LiveRun,
  { ports, timings }: { readonly ports: { readonly clock: Clock }; readonly timings: Timings },
  source: LoadSource,
  load: Omit<LoadReading, "at">,
): void {
  const reading = { ...load, at: ports.clock.monotonicMs() };
  updateServed(state, instance, ({ workload }) => ({
    workload: noteLoad(workload, source, reading, timings.performanceWindowMs),
  }));
}

/**
 * Means over the last minute, with the figures of the gate before those of the engine. Undefined before the second reading,
 * and if nothing reports them.
 */
export function livePerformanceOf(
  state: ReplicaState,
  now: number,
  windowMs?: number,
): Performance | undefined {
  const { load } = servedOf(runOf(state))?.workload ?? NO_WORKLOAD;
  const engine = meanPerformance(load.engine, now, windowMs);
  const gate = meanPerformance(load.gate, now, windowMs);
  if (engine === undefined && gate === undefined) return undefined;
  return { ...defined<Performance>(engine ?? {}), ...defined<Performance>(gate ?? {}) };
}
