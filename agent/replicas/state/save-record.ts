/** Rewrites engine.json of a running engine in the background, in order. */

import { writeEngineFile } from "./engine-record.ts";
import { runOf } from "./run.ts";
import type { ReplicaState } from "./state.ts";

/**
 * Writes the run's current record. Writes of one replica run one at a time and each writes the newest record, so the file
 * never goes back to an older one. Resolves once the record is on disk or no run is left; rejects if the write fails.
 */
export function saveRecord(state: ReplicaState): Promise<void> {
  const write = state.recordWritten.then(() => {
    const run = runOf(state);
    return run === undefined ? undefined : writeEngineFile(state.dir, run.file);
  });
  (state as { recordWritten: Promise<void> }).recordWritten = write.catch(() => undefined);
  return write;
}

/** Resolves once no write is pending, so that a file which is removed then does not reappear. */
export async function whenRecordWritten(state: ReplicaState): Promise<void> {
  let { recordWritten } = state;
  for (await recordWritten; recordWritten !== state.recordWritten; await recordWritten)
    recordWritten = state.recordWritten;
}
