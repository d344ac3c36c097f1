/** The parts of an engine's log: `log`, which the engine appends to, and what the agent rotated away from it. */
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import path from "node:path";

/** What a part is known by, whatever number it has by now: a rename changes neither. */
export interface RotatedPart {
  readonly file: string;
  readonly number: number;
  readonly identity: string;
  readonly sizeBytes: number;
}

const CHUNK_BYTES = 256 * 1024;
const NEWLINE = 0x0a;

/** `log.1`, `log.2`, …: newest first. Parts that are renamed at this very moment may be missing. */
export async function rotatedParts(dir: string): Promise<readonly RotatedPart[]> {
  const names = await readdir(dir);
  const numbers = names.flatMap((name) => /^log\.([1-9]\d*)$/.exec(name)?.[1] ?? []).map(Number);
  const parts = await Promise.all(numbers.sort((a, b) => a - b).map((number) => rotatedPart(dir, number)));
  return parts.filter((part) => part !== undefined);
}

/** Undefined where there is none of that number. */
export async function rotatedPart(dir: string, number: number): Promise<RotatedPart | undefined> {
  const file = path.join(dir, `log.${number}`);
  const found = await stat(file).catch(() => undefined);
  if (found === undefined || !found.isFile()) return undefined;
  const identity = [found.dev, found.ino, found.mtimeMs, found.size].join(":");
  return { file, number, identity, sizeBytes: found.size };
}

/** Everything from an offset on; nothing where the file is gone. */
export async function* readFrom(file: string, offset: number): AsyncGenerator<Buffer> {
  const handle = await openOrNothing(file);
  if (handle === undefined) return;
  try {
    for (let position = offset; ; ) {
      const { buffer, bytesRead } = await handle.read(
        Buffer.allocUnsafe(CHUNK_BYTES),
        0,
        CHUNK_BYTES,
        position,
      );
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
      position += bytesRead;
    }
  } finally {
    await handle.close();
  }
}

/** Undefined where there is no such file. */
export async function openOrNothing(file: string): Promise<FileHandle | undefined> {
  try {
    return await open(file, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Where the last `lines` lines begin, and how many there were. Holds one chunk at a time, however large the file is. */
export async function lastLines(
  handle: FileHandle,
  lines: number,
): Promise<{ readonly offset: number; readonly lines: number }> {
  const { size } = await handle.stat();
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  let found = 0;
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const { bytesRead } = await handle.read(buffer, 0, end - start, start);
    for (let index = bytesRead - 1; index >= 0; index -= 1) {
      const at = start + index;
      // The newline at the very end ends the last line and begins none.
      if (buffer[index] !== NEWLINE || at === size - 1) continue;
      found += 1;
      if (found === lines) return { offset: at + 1, lines };
    }
    end = start;
  }
  return { offset: 0, lines: size === 0 ? 0 : found + 1 };
}
