/** Creates the state folder. */
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import path from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { errorMessage } from "../../../src/util/error-message.ts";
import { makeFolder } from "../../../src/util/folder.ts";

/** Creates the folder and its missing parents for this user only. An existing folder must be writable. Throws StateFolderUnusable. */
export async function ensureFolder(dir: string): Promise<void> {
  try {
    await makeFolder(path.resolve(dir), 0o700, 0o700);
    await access(dir, constants.W_OK);
  } catch (cause) {
    const why = errorMessage(cause);
    throw new MetalbridgeError("StateFolderUnusable", `${dir}: ${why}`, undefined, { cause });
  }
}
