/** Prints a log and follows it as it grows. */
import { existsSync } from "node:fs";
import { systemClock } from "../../src/kube/system-clock.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { readFrom } from "./parts.ts";
import { findStart, type Wanted } from "./place.ts";
import { createLogReader, type LogReader } from "./reader.ts";

export interface PrintOptions {
  readonly wanted: Wanted;
  readonly follow: boolean;
  readonly signal: AbortSignal;
  /** Resolves when more can be taken. */
  readonly write: (bytes: Buffer) => Promise<void>;
  /** What is not of the log itself. */
  readonly tell: (line: string) => void;
}

/** How long a new line may wait: a look costs one fstat and one read. */
const LOOK_EVERY_MS = 200;

/** Ends at the end of the log, or, following, when the signal does or the engine's folder is gone. `dir` may come later. */
export async function printLog(dir: string, options: PrintOptions): Promise<void> {
  const { signal, tell } = options;
  if (!existsSync(dir)) {
    tell("the engine has not been started yet; waiting for its first line");
    while (!existsSync(dir) && !signal.aborted) await waitMs(systemClock, LOOK_EVERY_MS, signal);
  }
  if (signal.aborted) return;
  const start = await findStart(dir, options.wanted);
  for (const { part, offset } of start.before) await pour(readFrom(part.file, offset), options);
  await readToEnd(dir, createLogReader(dir, start.place), options);
}

async function readToEnd(dir: string, reader: LogReader, options: PrintOptions): Promise<void> {
  const { follow, signal, tell } = options;
  let losses = 0;
  while (!signal.aborted) {
    await pour(reader.readOn(), options);
    if (reader.losses() > losses) tell("a part of the log was rotated away before it could be read");
    losses = reader.losses();
    if (!follow && !reader.isWaiting()) return;
    if (!existsSync(dir)) return tell("the replica has left this host, and its log with it");
    await waitMs(systemClock, LOOK_EVERY_MS, signal);
  }
}

async function pour(bytes: AsyncIterable<Buffer>, { signal, write }: PrintOptions): Promise<void> {
  for await (const chunk of bytes) {
    if (signal.aborted) return;
    await write(chunk);
  }
}
