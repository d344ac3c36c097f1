/** A run directory that somebody removed, or took files from, while its engine runs under this agent. */
import { hasEngineFile, writeEngineFile } from "../files/engine-record.ts";
import { writeHistory } from "../files/history.ts";
import type { ReplicaState } from "../state.ts";
import { keepKeys, readKeyFile } from "./secrets.ts";

/**
 * Made again from memory, and the engine serves on: it reads none of these files, the next agent needs them to know the
 * engine and its claim. The FIFOs have lost their names for good, so that agent sees an end by pid, some seconds late.
 */
export function restoreRunFolder(state: ReplicaState): void {
  const { file, process, run, dir } = state;
  if (file === undefined || process?.state().at !== "running") return;
  try {
    const wasRestored = process.restoreFiles();
    if (!wasRestored && hasEngineFile(dir)) return;
    writeEngineFile(dir, file);
    writeHistory(dir, state.history);
    if (run.apiKey !== undefined && readKeyFile(dir) === undefined) keepKeys(dir, run.apiKey);
    state.sayings.over("run directory");
    state.log.warn({ dir }, "files of a running engine had been removed; they were written again");
  } catch (err) {
    state.sayings.found("run directory", String(err), { err });
  }
}
