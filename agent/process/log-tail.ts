/** The end of a log, however large the log is. */
import { open } from "node:fs/promises";
import { join } from "node:path";

/** The last `bytes` of the engine's log, from a line start where there is one; empty where there is no log. */
export async function readLogTail(dir: string, bytes: number): Promise<string> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(join(dir, "log"), "r");
  } catch {
    return "";
  }
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - bytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    const text = buffer.toString("utf8", 0, bytesRead);
    const lineStart = text.indexOf("\n") + 1;
    return from > 0 && lineStart > 0 && lineStart < text.length ? text.slice(lineStart) : text;
  } finally {
    await file.close();
  }
}
