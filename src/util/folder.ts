/** Creates folders one level at a time. */
import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "./atomic-file.ts";

const PARENT_MODE = 0o755;

/**
 * Creates the folder for this user only, and its missing parents as the umask has them: below root's, the folder of another
 * account must be within its reach. Throws the system's error.
 * Not `mkdir` with `recursive`: Node's never returns below a folder that allows no subfolders, such as /proc.
 */
export async function makeFolder(path: string, mode = 0o700): Promise<void> {
  try {
    await makeOne(path, mode);
  } catch (error) {
    if (systemCode(error) !== "ENOENT" || dirname(path) === path) throw error;
    await makeFolder(dirname(path), PARENT_MODE);
    await makeOne(path, mode);
  }
}

async function makeOne(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    if (systemCode(error) !== "EEXIST" || !(await stat(path)).isDirectory()) throw error;
  }
}
