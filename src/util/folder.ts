/** Creates and lists folders. */
import { readdirSync } from "node:fs";
import { mkdir, readdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { ifExists, systemCode } from "./atomic-file.ts";

const PARENT_MODE = 0o755;

/** The names in a folder; empty if the folder does not exist. */
export async function listFolder(folder: string): Promise<readonly string[]> {
  return (await ifExists(readdir(folder))) ?? [];
}

/** The names of the folders in a folder, synchronously. Empty if there is no such folder. */
export function listSubfolders(folder: string): readonly string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return [];
    throw error;
  }
}

/**
 * Creates the folder for this user only. By default missing parents are created with the umask's permissions, because another
 * account may have to reach the folder below a parent that root owns. Throws the system error.
 * `mkdir` with `recursive` is not used: Node never returns below a folder that allows no subfolders, such as /proc.
 */
export async function makeFolder(path: string, mode = 0o700, parentMode = PARENT_MODE): Promise<void> {
  try {
    await makeOne(path, mode);
  } catch (error) {
    if (systemCode(error) !== "ENOENT" || dirname(path) === path) throw error;
    await makeFolder(dirname(path), parentMode, parentMode);
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
