/** What the engine's process really takes of the memory: a question to the system, seldom asked. */
import type { RunnerContext } from "../context.ts";
import type { ReplicaState } from "../state.ts";

/** One reading. One that fails leaves the last figure in place and is not asked again before its time. */
export function measureFootprint(state: ReplicaState, context: RunnerContext): void {
  const run = state.process?.state();
  const runId = state.file?.runId;
  if (run?.at !== "running" || runId === undefined) return;
  state.jobs.run("footprint", async () => {
    const bytes = await context.ports.footprintBytes(run.pid);
    // The pid may have been given to a stranger between the end of the engine and the reading.
    const isSameRun = state.file?.runId === runId && state.process?.state().at === "running";
    if (!isSameRun) return true;
    const lastAt = context.ports.clock.monotonicMs();
    const kept = bytes ?? state.run.footprint?.bytes;
    state.run.footprint = kept === undefined ? { lastAt } : { lastAt, bytes: kept };
    return true;
  });
}
