/** Writes a log to standard output, at the speed of its reader. */
import { pipeline } from "node:stream/promises";
import type { StopRequest } from "../program/stop-signals.ts";

/** Resolves at the end, after Ctrl-C, and when the reader has closed the pipe. */
export async function printBytes(
  output: AsyncIterable<Buffer | string>,
  { signal }: StopRequest,
): Promise<void> {
  try {
    await pipeline(output, process.stdout, { signal, end: false });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A closed pipe is no failure: `metalbridge logs X -f | head`.
    const isPipeClosed = code === "EPIPE" || code === "ERR_STREAM_PREMATURE_CLOSE";
    if (!signal.aborted && !isPipeClosed) throw error;
  }
}
