/** The paths of the agent's Unix sockets: in the state folder, or a short path if that one is too long. */
import type { Stats } from "node:fs";
import { chmod, lstat } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { makeFolder } from "../../src/util/folder.ts";
import { hash } from "../../src/util/hash.ts";

/** sun_path is 104 bytes on macOS and 108 on Linux, its terminating zero included. */
const MAX_PATH_BYTES = 103;

/** `preferred` if that is short enough, otherwise a path under the temporary folder with a hash of it. */
export async function socketPathFor(preferred: string, tempDir: string): Promise<string> {
  const { path, folder } = locateSocket(preferred, tempDir);
  if (folder === undefined) return path;
  await makePrivate(folder);
  await requireOwn(folder);
  return path;
}

/** The same path for an existing socket; creates no folder. */
export function existingSocketPath(preferred: string, tempDir: string): string {
  return locateSocket(preferred, tempDir).path;
}

/** `folder`: the private folder of a short path. */
function locateSocket(
  preferred: string,
  tempDir: string,
): { readonly path: string; readonly folder?: string } {
  if (Buffer.byteLength(preferred) <= MAX_PATH_BYTES) return { path: preferred };
  const folder = join(tempDir, `metalbridge-${process.getuid?.() ?? 0}`);
  const path = join(folder, `${hash(preferred, 24)}.sock`);
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw unusable(`${preferred} is longer than a socket's path may be (${MAX_PATH_BYTES} bytes)`);
  return { path, folder };
}

export async function makePrivate(folder: string): Promise<void> {
  try {
    await makeFolder(folder);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw unusable(`${folder} cannot be created: ${reason}`, error);
  }
}

/** Any user can create names in the temporary folder, so this one must belong to this user, and be a folder and no link. */
async function requireOwn(folder: string): Promise<void> {
  const found = await lstat(folder);
  if (!found.isDirectory() || belongsToOther(found))
    throw unusable(
      `${folder}, the folder of the agent's socket, was created by another user (uid ${found.uid})`,
    );
  await chmod(folder, 0o700);
}

export function belongsToOther({ uid }: Stats): boolean {
  return process.getuid !== undefined && uid !== process.getuid();
}

export function unusable(message: string, cause?: unknown): MetalbridgeError {
  return new MetalbridgeError("StateDirUnusable", message, undefined, { cause });
}
