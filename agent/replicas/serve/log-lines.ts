/**
 * Scans what the engine has logged since the last scan for lines that mean it may no longer serve requests.
 */

import { statSync } from "node:fs";
import { open } from "node:fs/promises";
import type { RunnerContext } from "../context.ts";
import { raiseSuspicion } from "../evidence/suspicion.ts";
import { noteLog, servedOf } from "../state/run.ts";
import type { ReplicaState } from "../state/state.ts";
import type { ProbeContext } from "./probe-context.ts";

/** Of a longer part only the end is read: an engine that fails its requests logs that for each of them. */
const LARGEST_SCAN = 256 * 1024;
const NEW_LINE = 0x0a;

/** Bytes in the log; 0 where there is none. */
export function logBytes(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** One scan; what it finds becomes the suspicion that a real request has to settle. */
export async function scanLog(
  state: ReplicaState,
  context: RunnerContext,
  { driver, run }: ProbeContext,
): Promise<void> {
  const { instance } = run;
  const found = await readNewLines(instance.logPath, servedOf(run)?.log.seenTo ?? 0);
  if (found === undefined) return;
  const line = driver.findDegraded(found.text);
  const now = context.ports.clock.monotonicMs();
  noteLog(state, instance, (log) => {
    const suspicion = raiseSuspicion(log.suspicion, line, now, context.timings.proveAgainMs);
    if (suspicion !== log.suspicion) state.log.warn({ line }, "the engine logged errors");
    return { ...log, seenTo: found.seenTo, suspicion };
  });
}

/** The whole lines after `seenTo`. Undefined, for one stat, where nothing was written, and where the log cannot be read. */
export async function readNewLines(
  path: string,
  seenTo: number,
  largest = LARGEST_SCAN,
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
