/** Runs before each plan: updates a replica's state from the disk, the slice and the host's address. Changes nothing outside this process. */

import type { RunnerContext } from "./context/context.ts";
import { noteSlice } from "./evidence/exposure.ts";
import { currentSlice } from "./observe.ts";
import { readopt } from "./prepare/adopt.ts";
import { resolveModel, watchCorrection, watchWeights } from "./prepare/fetch.ts";
import { noteAddressMismatch, noteEnded, runOf, setSlice } from "./state/run.ts";
import { type ReplicaState, replicaOf, replicaRuntime } from "./state/state.ts";

/** Reads the disk only if no engine runs; the facts of a running engine come from its jobs. */
export async function refreshFromDisk(state: ReplicaState, context: RunnerContext): Promise<void> {
  if (state.engine.at === "unreadable") await readopt(state, context);
  if (state.engine.at === "none" && replicaOf(state) !== undefined && state.desired.at !== "deleted") {
    const runtime = replicaRuntime(state);
    const isUnknown = context.runtimes.state(runtime).at === "unknown";
    await Promise.all([
      resolveModel(state, context),
      isUnknown ? context.runtimes.detect(runtime) : undefined,
    ]);
  }
  const now = context.ports.clock.monotonicMs();
  updateAddressMismatch(state, context, now);
  const wasReady = runOf(state)?.file.readyAtMs !== undefined;
  const { state: _, ...slice } = noteSlice(state.slice, currentSlice(state, context), wasReady, now);
  setSlice(state, slice);
  watchWeights(state);
  watchCorrection(state, context);
  noteEnded(state);
}

function updateAddressMismatch(state: ReplicaState, context: RunnerContext, now: number): void {
  const run = runOf(state);
  if (run === undefined) return;
  const address = context.address();
  const isMismatched =
    run.instance.state().at === "running" &&
    address !== undefined &&
    run.file.address !== address &&
    context.wasListed();
  noteAddressMismatch(state, isMismatched, now);
}
