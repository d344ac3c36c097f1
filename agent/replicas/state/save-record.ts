/** Rewrites engine.json of a running engine beside the agent's other work, in order. */

import { writeEngineFile } from "./engine-record.ts";
import { runOf } from "./run.ts";
import type { ReplicaState } from "./state.ts";

/**
 * Writes what the run's record is now. One write of a replica at a time, each of the newest record: whoever asks, the file
 * never goes back. Resolves once it is on disk, or nothing runs any more; rejects where it cannot be written.
 */
export function saveRecord(state: ReplicaState): Promise<void> {
  const write = state.recordWritten.then(() => {
    const run = runOf(state);
    return run === undefined ? undefined : writeEngineFile(state.dir, run.file);
  });
  (state as { recordWritten: Promise<void> }).recordWritten = write.catch(() => undefined);
  return write;
}

/** Resolves when nothing is being written: what is removed then does not come back. */
export async function whenRecordWritten(state: ReplicaState): Promise<void> {
  let { recordWritten } = state;
  for (await recordWritten; recordWritten !== state.recordWritten; await recordWritten)
    recordWritten = state.recordWritten;
}
