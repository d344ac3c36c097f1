/** Looks through what the engine has logged since the last look for lines that mean it may serve nobody. */
import { statSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { suspect } from "../../../src/replica/evidence/suspicion.ts";
import type { EngineDriver } from "../../engines/engine.ts";
import type { RunnerContext } from "../context.ts";
import type { ReplicaState } from "../state.ts";

/** Of more than this only the end is read: an engine that fails its requests says so at each of them. */
const LARGEST_LOOK = 256 * 1024;
const NEW_LINE = 0x0a;

/** How long the log is; 0 where there is none. */
export function logBytes(dir: string): number {
  return statSync(join(dir, "log"), { throwIfNoEntry: false })?.size ?? 0;
}

/** One look; what it finds becomes the suspicion that a real request has to settle. */
export async function lookAtLog(
  state: ReplicaState,
  context: RunnerContext,
  driver: EngineDriver,
): Promise<void> {
  const { run } = state;
  const found = await readNewLines(state.dir, run.logSeenTo ?? 0);
  if (found === undefined || state.run !== run) return;
  run.logSeenTo = found.seenTo;
  const line = driver.findDegraded(found.text);
  const before = run.suspicion;
  run.suspicion = suspect(before, line, context.ports.clock.monotonicMs(), context.timings.proveAgainMs);
  if (run.suspicion !== before) state.log.warn({ line }, "the engine logged errors");
}

/** The whole lines after `seenTo`. Undefined, for one stat, where nothing was written, and where the log cannot be read. */
export async function readNewLines(
  dir: string,
  seenTo: number,
  largest = LARGEST_LOOK,
): Promise<{ readonly text: string; readonly seenTo: number } | undefined> {
  const size = logBytes(dir);
  if (size === seenTo) return undefined;
  // A log that is shorter than before was rotated and begins anew.
  const from = Math.max(size < seenTo ? 0 : seenTo, size - largest);
  const bytes = await readPart(join(dir, "log"), from, size).catch(() => undefined);
  if (bytes === undefined) return undefined;
  // A line that is not whole yet is left for the next look, unless it is longer than a look.
  const lines = bytes.lastIndexOf(NEW_LINE) + 1;
  const taken = lines === 0 && bytes.length >= largest ? bytes.length : lines;
  return { text: bytes.toString("utf8", 0, taken), seenTo: from + taken };
}

async function readPart(path: string, from: number, to: number): Promise<Buffer> {
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(to - from), 0, to - from, from);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
