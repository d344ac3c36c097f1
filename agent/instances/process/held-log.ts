/** The log through an open descriptor: it stays readable after the file is removed from the folder. */
import { closeSync, constants, fstatSync, ftruncateSync, openSync } from "node:fs";
import { join } from "node:path";
import { copyFrom } from "../run-files/log-rotation.ts";

export interface HeldLog {
  /** Moves what was written since the file lost its name to the end of the log that lies there now. */
  readonly moveToCurrent: (largest: number) => void;
  readonly close: () => void;
}

/** Undefined where there is no log, or none that may be written. */
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
      // Without a folder it waits, but only until the log reaches its maximum size: a removed file
      // fills the disk unseen.
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
