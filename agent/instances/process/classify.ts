/** From what a run directory and its FIFOs show to the state of the engine: pure, total over every half-done start. */

import type { RunFiles } from "../run-files/run-directory.ts";
import type { ProcessState } from "./engine-process.ts";

export interface ObservedRun {
  readonly files: RunFiles;
  /** FIFO `main` is held: the shim lives. */
  readonly isMainHeld: boolean;
  /** Whether the process in `pid` lives with the same start time. */
  readonly isMainAlive: boolean;
  /** Whether something beside the main process lives or may live. */
  readonly hasLeftovers: boolean;
}

/** "never started": no process of an engine can ever have existed here, so that starting one is safe. */
export function classify(seen: ObservedRun): ProcessState | "never started" {
  const { session, main, exit } = seen.files;
  if (seen.isMainHeld) {
    return main === undefined ? { at: "starting" } : { at: "running", ...main };
  }
  if (exit !== undefined) return { at: seen.hasLeftovers ? "ended" : "gone", exit };
  if (main !== undefined && seen.isMainAlive) return { at: "running", ...main };
  if (session === undefined && main === undefined && !seen.hasLeftovers) return "never started";
  return { at: seen.hasLeftovers ? "ended" : "gone", exit: "unknown" };
}

export function isSameState(a: ProcessState, b: ProcessState): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
