/** The end of a log, even if the log is large or was just rotated. */
import { open } from "node:fs/promises";
import { join } from "node:path";

/** The last `bytes` of the log, from a line start if there is one; empty if there is no log. */
export async function readLogTail(dir: string, bytes: number): Promise<string> {
  const newest = await readEnd(join(dir, "log"), bytes);
  const missing = bytes - newest.bytes.length;
  const older =
    missing > 0 ? await readEnd(join(dir, "log.1"), missing) : { bytes: Buffer.alloc(0), isWhole: true };
  const text = Buffer.concat([older.bytes, newest.bytes]).toString("utf8");
  const lineStart = text.indexOf("\n") + 1;
  const isWhole = older.isWhole && newest.isWhole;
  return !isWhole && lineStart > 0 && lineStart < text.length ? text.slice(lineStart) : text;
}

async function readEnd(
  path: string,
  bytes: number,
): Promise<{ readonly bytes: Buffer; readonly isWhole: boolean }> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(path, "r");
  } catch {
    return { bytes: Buffer.alloc(0), isWhole: true };
  }
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - bytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    return { bytes: buffer.subarray(0, bytesRead), isWhole: from === 0 };
  } finally {
    await file.close();
  }
}
