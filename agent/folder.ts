/** Creates folders one level at a time. */
import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "./atomic-file.ts";

/**
 * Creates the folder and its missing parents, for this user only. Throws the system's error.
 * Not `mkdir` with `recursive`: Node's never returns below a folder that allows no subfolders, such as /proc.
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    if (systemCode(error) !== "ENOENT" || dirname(path) === path) throw error;
    await makeFolder(dirname(path));
    await makeOne(path);
  }
}

async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) !== "EEXIST" || !(await stat(path)).isDirectory()) throw error;
  }
}
