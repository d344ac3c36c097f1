/** The log through an open descriptor, which stays readable after the file is removed from the folder. */
import { closeSync, constants, fstatSync, ftruncateSync, openSync } from "node:fs";
import { join } from "node:path";
import { copyFrom } from "./log-rotation.ts";

export interface HeldLog {
  /** Moves output that was written after the file's removal to the end of the current log. */
  readonly moveToCurrent: (largest: number) => void;
  readonly close: () => void;
}

/** Undefined if there is no log, or it is not writable. */
export function holdLog(dir: string): HeldLog | undefined {
  const path = join(dir, "log");
  let fd: number | undefined = openLog(path);
  if (fd === undefined) return undefined;
  return {
    moveToCurrent: (largest) => {
      if (fd === undefined) return;
      const { nlink, size } = fstatSync(fd);
      if (nlink > 0 || size === 0) return;
      const copiedTo = copyFrom(fd, path, { from: Math.max(0, size - largest), maxBytes: largest }, "a");
      // If the folder is missing, the output is kept, but only up to the maximum size of a log: a removed file fills the
      // disk invisibly.
      if (copiedTo !== undefined || size > largest) ftruncateSync(fd, 0);
    },
    close: () => {
      if (fd !== undefined) closeSync(fd);
      fd = undefined;
    },
  };
}

function openLog(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDWR | constants.O_APPEND);
  } catch {
    return undefined;
  }
}
