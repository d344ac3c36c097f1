/** Where in a log reading begins: at its start, at the start of what is kept, or a number of lines before its end. */
import type { FileHandle } from "node:fs/promises";
import path from "node:path";
import { lastLines, openOrNothing, type RotatedPart, rotatedParts } from "./parts.ts";

/** Remembered, to find a place again in a rotated copy; long, because logs repeat themselves. */
export const MEMORY_BYTES = 64 * 1024;

export interface LogPlace {
  readonly offset: number;
  /** What stands before it. */
  readonly recent: Buffer;
  /** Identity of the newest part that had been rotated away by then. */
  readonly newestPart: string | undefined;
}

export interface LogStart {
  /** Rotated parts to read first, oldest first, and from where. */
  readonly before: readonly { readonly part: RotatedPart; readonly offset: number }[];
  readonly place: LogPlace;
}

/** `all`: with the rotated parts; `current`: the newest part from its start. */
export type Wanted = "all" | "current" | { readonly lines: number };

/** A rotation in the middle of looking means to look again; more than a few in a row do not happen. */
const ATTEMPTS = 5;

export async function findStart(dir: string, wanted: Wanted): Promise<LogStart> {
  for (let attempt = 1; ; attempt += 1) {
    const parts = await rotatedParts(dir);
    const log = await openOrNothing(path.join(dir, "log"));
    try {
      const start = await startIn(log, parts, wanted);
      const now = (await rotatedParts(dir))[0]?.identity;
      if (now === parts[0]?.identity || attempt === ATTEMPTS) return start;
    } finally {
      await log?.close();
    }
  }
}

async function startIn(
  log: FileHandle | undefined,
  parts: readonly RotatedPart[],
  wanted: Wanted,
): Promise<LogStart> {
  const newestPart = parts[0]?.identity;
  const atStart = { offset: 0, recent: Buffer.alloc(0), newestPart };
  const oldestFirst = parts.toReversed().map((part) => ({ part, offset: 0 }));
  if (wanted === "all") return { before: oldestFirst, place: atStart };
  if (wanted === "current") return { before: [], place: atStart };
  if (log === undefined) return { before: await tailOfParts(parts, wanted.lines), place: atStart };
  const inLog =
    wanted.lines === 0 ? { offset: (await log.stat()).size, lines: 0 } : await lastLines(log, wanted.lines);
  const length = Math.min(inLog.offset, MEMORY_BYTES);
  const { buffer, bytesRead } = await log.read(Buffer.alloc(length), 0, length, inLog.offset - length);
  return {
    before: await tailOfParts(parts, wanted.lines - inLog.lines),
    place: { offset: inLog.offset, recent: buffer.subarray(0, bytesRead), newestPart },
  };
}

/** The last lines of parts, newest first in, oldest first out. */
async function tailOfParts(parts: readonly RotatedPart[], lines: number): Promise<LogStart["before"]> {
  const before: { part: RotatedPart; offset: number }[] = [];
  let missing = lines;
  for (const part of parts) {
    if (missing <= 0) break;
    const handle = await openOrNothing(part.file);
    if (handle === undefined) break;
    try {
      const found = await lastLines(handle, missing);
      before.unshift({ part, offset: found.offset });
      missing -= found.lines;
    } finally {
      await handle.close();
    }
  }
  return before;
}
