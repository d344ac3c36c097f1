/** The state folder itself. */
import { accessSync, constants, mkdirSync, statSync } from "node:fs";
import path from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { errorMessage } from "../../../src/util/error-message.ts";

/** Creates it private to this user; an existing one must be writable. */
export function ensureFolder(dir: string): void {
  try {
    makeFolder(path.resolve(dir));
    accessSync(dir, constants.W_OK);
  } catch (cause) {
    const why = errorMessage(cause);
    throw new MetalbridgeError("StateFolderUnusable", `${dir}: ${why}`, undefined, { cause });
  }
}

/** Level by level: Node's `recursive` never returns where the system says ENOENT below a folder that exists, as in /proc. */
function makeFolder(dir: string): void {
  const found = statSync(dir, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) return;
  if (found !== undefined) throw new Error(`${dir} is a file, not a folder`);
  makeFolder(path.dirname(dir));
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it in between.
    if (!statSync(dir, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}
