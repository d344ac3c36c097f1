/** Derives the state from its run directory and FIFOs. Pure, and total over every incomplete start. */

import type { RunFiles } from "./run-directory.ts";
import type { ProcessState } from "./supervised.ts";

export interface ObservedRun {
  readonly files: RunFiles;
  /** A process holds FIFO `main`: the shim is alive. */
  readonly isMainHeld: boolean;
  /** The process in `pid` is alive with the same start time. */
  readonly isMainAlive: boolean;
  /** A process other than the main process is alive, or may be. */
  readonly hasLeftovers: boolean;
}

/** "never started": no process can ever have existed in the directory, so it is safe to start one. */
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
