/**
 * Scans what the engine has logged since the last scan for lines that mean it may no longer serve requests.
 */

import { statSync } from "node:fs";
import { open } from "node:fs/promises";
import type { RunnerContext } from "../context/context.ts";
import { raiseSuspicion } from "../evidence/suspicion.ts";
import { liveRunOf, servedOf, updateServed } from "../state/run.ts";
import type { ReplicaState } from "../state/state.ts";

/** If more was logged, only the end is read: an engine that fails its requests logs each failure. */
const MAX_SCAN = 256 * 1024;
const NEW_LINE = 0x0a;

/** Size of the log in bytes; 0 if there is none. */
export function logBytes(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Scans once. A line that is found becomes a suspicion, which a real request confirms or clears. */
export function scanLog(state: ReplicaState, context: RunnerContext): void {
  const run = servedOf(liveRunOf(state));
  const driver = run === undefined ? undefined : context.runtimes.driver(run.file.runtime);
  if (run === undefined || driver === undefined) return;
  const { instance, log } = run;
  if (logBytes(instance.logPath) === (log.seenTo ?? 0)) return;
  state.jobs.run("log", async () => {
    const found = await readNewLines(instance.logPath, log.seenTo ?? 0);
    if (found === undefined) return "unchanged";
    const line = driver.findDegraded?.(found.text);
    const now = context.ports.clock.monotonicMs();
    let isSuspected = false;
    updateServed(state, instance, ({ log: before }) => {
      const suspicion = raiseSuspicion(before.suspicion, line, now, context.timings.proveAgainMs);
      isSuspected = suspicion !== before.suspicion;
      return { log: { ...before, seenTo: found.seenTo, suspicion } };
    });
    if (isSuspected) state.log.warn({ line }, "the engine logged errors");
    return isSuspected ? true : "unchanged";
  });
}

/** The complete lines after `seenTo`. Undefined if nothing was written, at the cost of one stat, or the log cannot be read. */
export async function readNewLines(
  path: string,
  seenTo: number,
  largest = MAX_SCAN,
): Promise<{ readonly text: string; readonly seenTo: number } | undefined> {
  const size = logBytes(path);
  if (size === seenTo) return undefined;
  // A log that is shorter than before was rotated: read it from the start.
  const from = Math.max(size < seenTo ? 0 : seenTo, size - largest);
  const bytes = await readPart(path, from, size).catch(() => undefined);
  if (bytes === undefined) return undefined;
  // A line that is not complete yet is left for the next scan, unless it is longer than a scan.
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
