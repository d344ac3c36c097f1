/** Writes files so that a crash leaves either the old content or the new one. */
import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

/** Temp file, fsync, rename, fsync of the folder. */
export async function writeFileAtomic(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw withPath(error, path);
  }
  await syncPath(dirname(path));
}

export interface AtomicWriteOptions {
  /** Name of the temporary file; absent: a random name. */
  readonly temporary?: string;
  /** Changes the temporary file, such as its mode, before it replaces the old file. */
  readonly prepare?: (file: number) => void;
}

/** The synchronous version, for content that must be on disk before the next step. It blocks the process until then. */
export function writeFileAtomicSync(
  path: string,
  text: string,
  { temporary = `${path}.${randomUUID()}.tmp`, prepare }: AtomicWriteOptions = {},
): void {
  try {
    const file = openSync(temporary, "wx", 0o600);
    try {
      // Not writeSync: on a disk that is almost full, writeSync may write only a part and report success.
      writeFileSync(file, text);
      prepare?.(file);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw withPath(error, path);
  }
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Errors of an open file do not name it. */
function withPath(error: unknown, path: string): unknown {
  return error instanceof Error && !("path" in error) ? Object.assign(error, { path }) : error;
}

/** Makes a file, or the renames inside a folder, survive a power loss. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Resolves to undefined if the file or folder does not exist. */
export async function ifExists<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** An error that has a `code`, like an error of the system. */
export function systemError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

/** The `code` of a system error, such as ENOENT. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
