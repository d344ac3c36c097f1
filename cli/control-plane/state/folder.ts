/** The state folder itself. */
import { accessSync, constants, mkdirSync } from "node:fs";
import { MetalbridgeError } from "../../../src/errors.ts";

/** Creates it private to this user; an existing one must be writable. */
export function ensureFolder(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    accessSync(dir, constants.W_OK);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new MetalbridgeError("StateFolderUnusable", `${dir}: ${why}`, undefined, { cause });
  }
}
