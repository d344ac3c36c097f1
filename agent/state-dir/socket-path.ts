/** Where the agent's Unix sockets are: in the state folder, or under a short path where that is too long. */
import { createHash } from "node:crypto";
import type { Stats } from "node:fs";
import { chmod, lstat } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { makeFolder } from "../../src/util/folder.ts";

/** sun_path is 104 bytes on macOS and 108 on Linux, its terminating zero included. */
const MAX_PATH_BYTES = 103;

/** `beside` where that is short enough, else a path under the temporary folder by its hash. */
export async function socketPathFor(beside: string, tempDir: string): Promise<string> {
  const { path, folder } = socketPlace(beside, tempDir);
  if (folder === undefined) return path;
  await makePrivate(folder);
  await requireOwn(folder);
  return path;
}

/** The same path, of a socket that is there already. */
export function existingSocketPath(beside: string, tempDir: string): string {
  return socketPlace(beside, tempDir).path;
}

/** `folder`: the one of ours that a short path needs. */
function socketPlace(beside: string, tempDir: string): { readonly path: string; readonly folder?: string } {
  if (Buffer.byteLength(beside) <= MAX_PATH_BYTES) return { path: beside };
  const digest = createHash("sha256").update(beside).digest("hex").slice(0, 24);
  const folder = join(tempDir, `metalbridge-${process.getuid?.() ?? 0}`);
  const path = join(folder, `${digest}.sock`);
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw unusable(`${beside} is longer than a socket's path may be (${MAX_PATH_BYTES} bytes)`);
  }
  return { path, folder };
}

export async function makePrivate(folder: string): Promise<void> {
  try {
    await makeFolder(folder);
  } catch (error) {
    throw unusable(`${folder} cannot be created: ${whyOf(error)}`, error);
  }
}

/** Anyone may create names in the temporary folder: what is there must be ours, a folder and no link. */
async function requireOwn(folder: string): Promise<void> {
  const found = await lstat(folder);
  if (!found.isDirectory() || isStrangers(found))
    throw unusable(
      `${folder}, where the agent's socket belongs, was made by another user (uid ${found.uid})`,
    );
  await chmod(folder, 0o700);
}

export function isStrangers({ uid }: Stats): boolean {
  return process.getuid !== undefined && uid !== process.getuid();
}

export function unusable(message: string, cause?: unknown): MetalbridgeError {
  return new MetalbridgeError("StateDirUnusable", message, undefined, { cause });
}

function whyOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
