/** Whole files or none: write beside, fsync, rename. */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";

/** Replaces `file` in one step; a reader or a crash never meets half of it. */
export function writeAtomically(file: string, content: string, mode = 0o600): void {
  const temporary = `${file}.${process.pid}.tmp`;
  rmSync(temporary, { force: true });
  const descriptor = openSync(temporary, "wx", mode);
  try {
    writeSync(descriptor, content);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(temporary, file);
}
