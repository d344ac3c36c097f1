/** Reads the log of an engine on this machine, across rotations. */
import { existsSync } from "node:fs";
import { type LogRange, LogReader } from "../../agent/remote/log-reader.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { waitMs } from "../../src/kube/wait.ts";

interface ReadOptions {
  readonly range: LogRange;
  readonly follow: boolean;
  readonly signal: AbortSignal;
  /** Called with a sentence about the log. */
  readonly note: (text: string) => void;
}

/** Poll interval, and maximum delay of a new line. */
const POLL_MS = 200;

/** Ends at the end of the log. When it follows, it ends with the signal or when the engine's folder is removed. `dir` may not exist yet. */
export async function* readLog(dir: string, options: ReadOptions): AsyncGenerator<Buffer> {
  const { follow, signal, range, note } = options;
  if (!existsSync(dir)) note("the engine has not been started yet; waiting for its first line");
  while (!existsSync(dir) && !signal.aborted) await waitMs(systemClock, POLL_MS, signal);
  const reader = await LogReader.open(dir, range, signal);
  let losses = 0;
  while (!signal.aborted) {
    yield* reader.read();
    if (reader.losses > losses) note("a part of the log was rotated away before it could be read");
    losses = reader.losses;
    if (!follow && !reader.isWaiting) return;
    if (!existsSync(dir)) {
      note("the replica has left this host, and its log with it");
      return;
    }
    await waitMs(systemClock, POLL_MS, signal);
  }
}
