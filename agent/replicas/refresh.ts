/** Before each plan: brings a replica's state up to date with the disk, the slice and the host's address. Changes nothing outside this process. */

import type { RunnerContext } from "./context.ts";
import { noteSlice } from "./evidence/exposure.ts";
import { currentSlice } from "./observe.ts";
import { readopt } from "./prepare/adopt.ts";
import { resolveModel, watchCorrection, watchWeights } from "./prepare/fetch.ts";
import { noteAddressMismatch, noteEnded, runOf, setSlice } from "./state/run.ts";
import { type ReplicaState, replicaOf, replicaRuntime } from "./state/state.ts";

/** Only where nothing runs does it read the disk; a running engine's facts come from its jobs. */
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

function updateAddressMismatch(
  state: ReplicaState,
  { address: currentAddress, wasListed }: RunnerContext,
  now: number,
): void {
  const run = runOf(state);
  if (run === undefined) return;
  const address = currentAddress();
  const isMismatched =
    run.instance.state().at === "running" &&
    address !== undefined &&
    run.file.address !== address &&
    wasListed();
  noteAddressMismatch(state, isMismatched, now);
}
