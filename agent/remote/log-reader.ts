/**
 * Reads an engine's log while the agent rotates it in place: copied to `log.1`, then truncated. Bytes that were not read
 * before the truncation are read from the copy.
 */
import { closeSync, fstatSync, readSync, statSync } from "node:fs";
import path from "node:path";
import { setImmediate } from "node:timers/promises";
import { openPlainFile } from "../../src/util/plain-file.ts";

/** `all`: with the rotated files; `current`: the current file from its start; else the last lines, across files. */
export type LogRange = "all" | "current" | { readonly lines: number };

const CHUNK_BYTES = 256 * 1024;
/** Number of bytes read last that are stored to find the position in a copy without its head. Many, because logs repeat themselves. */
const RECENT_BYTES = 64 * 1024;
/** Maximum number of polls for the copy of a truncated log, after which it counts as truncated without a copy. */
const POLLS_FOR_COPY = 50;
/** Maximum number of searches for the first line of the range that a rotation may disturb. */
const MAX_SEARCHES = 3;
const NEWLINE = 0x0a;
const NOTHING = Buffer.alloc(0);

interface RotatedFile {
  readonly file: string;
  /** Unchanged when a rotation renames the file. */
  readonly identity: string;
}

/** A position in the file that follows `after`: in the next copy, or in `log` while there is no next copy. */
interface Place {
  readonly offset: number;
  /** The last bytes before it. */
  readonly recent: Buffer;
  /** Identity of a rotated file. */
  readonly after: string | undefined;
}

/** `dir` is the engine's folder. */
export class LogReader {
  /** Number of times that bytes were rotated away before they were read, for example on a full disk. */
  losses = 0;
  readonly #dir: string;
  #place: Place;
  #polls = 0;

  private constructor(dir: string, place: Place) {
    this.#dir = dir;
    this.#place = place;
  }

  /** Finds the start of the range. The signal ends the search early, for a client that has disconnected. */
  static async open(dir: string, range: LogRange, signal: AbortSignal): Promise<LogReader> {
    return new LogReader(dir, await startOf(dir, range, signal));
  }

  /** True between a truncation and the arrival of the copy: call `read` again. */
  get isWaiting(): boolean {
    return this.#polls > 0;
  }

  /** Everything that was appended since the last call. */
  *read(): Generator<Buffer> {
    for (;;) {
      const copy = this.#unreadCopy();
      if (copy !== undefined) {
        yield* chunks(copy.file, this.#placeIn(copy));
        this.#startAfter(copy.identity);
        continue;
      }
      if (this.#isTruncated()) return;
      const [bytes] = chunks(path.join(this.#dir, "log"), this.#place.offset);
      // The log was rotated since the first check: these bytes come after those of the copy.
      if (this.#unreadCopy() !== undefined) continue;
      if (bytes === undefined) return;
      const recent = Buffer.concat([this.#place.recent, bytes]).subarray(-RECENT_BYTES);
      this.#place = { ...this.#place, recent, offset: this.#place.offset + bytes.length };
      yield bytes;
    }
  }

  #startAfter(after: string | undefined): void {
    this.#place = { offset: 0, recent: NOTHING, after };
    this.#polls = 0;
  }

  /** The oldest unread copy. All copies are unread if the one that was read last no longer exists. */
  #unreadCopy(): RotatedFile | undefined {
    const copies = rotatedFiles(this.#dir);
    const lastRead = copies.findIndex(({ identity }) => identity === this.#place.after);
    return copies[lastRead === -1 ? copies.length - 1 : lastRead - 1];
  }

  /** True until the copy exists, or too many polls have found none. */
  #isTruncated(): boolean {
    const size = statSync(path.join(this.#dir, "log"), { throwIfNoEntry: false })?.size ?? 0;
    if (size >= this.#place.offset) return false;
    this.#polls += 1;
    if (this.#polls < POLLS_FOR_COPY) return true;
    this.losses += 1;
    this.#startAfter(this.#place.after);
    return false;
  }

  /** Offset after the bytes read last: at most the offset in the log, because a copy may only lack its head. */
  #placeIn({ file }: RotatedFile): number {
    const { offset, recent } = this.#place;
    if (offset === 0) return 0;
    // Usually the whole log was copied: comparing the last bytes read is enough, however long it is.
    if (endsAt(file, offset, recent)) return offset;
    const copy = Buffer.concat([...chunks(file, 0)]);
    const at = copy.subarray(0, offset).lastIndexOf(recent);
    if (at !== -1) return at + recent.length;
    // The copy may start within the bytes read last.
    for (let length = Math.min(recent.length, copy.length); length > 0; length -= 1)
      if (recent.subarray(-length).equals(copy.subarray(0, length))) return length;
    this.losses += 1;
    return 0;
  }
}

async function startOf(
  dir: string,
  range: LogRange,
  signal: AbortSignal,
  searches = MAX_SEARCHES,
): Promise<Place> {
  const rotated = rotatedFiles(dir);
  // A log that rotates during every search is read completely, which includes the lines of the range.
  if (range === "all" || searches === 0) return { offset: 0, recent: NOTHING, after: undefined };
  let start: Place = { offset: 0, recent: NOTHING, after: rotated[0]?.identity };
  if (range === "current") return start;
  let missing = range.lines;
  for (const [index, file] of [path.join(dir, "log"), ...rotated.map((one) => one.file)].entries()) {
    const { lines, ...place } = await lastLines(file, missing, signal);
    start = { ...place, after: rotated[index]?.identity };
    missing -= lines;
    if (missing === 0 || signal.aborted) break;
  }
  const wasRotated = rotatedFiles(dir)[0]?.identity !== rotated[0]?.identity;
  return wasRotated ? startOf(dir, range, signal, searches - 1) : start;
}

/**
 * The start of the last lines of a file, and how many of them it has. Reads one chunk at a time and yields to the event loop
 * after each one, because the agent searches logs of any length for users of other machines.
 */
async function lastLines(
  file: string,
  lines: number,
  signal: AbortSignal,
): Promise<Omit<Place, "after"> & { readonly lines: number }> {
  const fd = openLog(file);
  if (fd === undefined) return { offset: 0, recent: NOTHING, lines: 0 };
  try {
    const { size } = fstatSync(fd);
    const startsAt = (offset: number) => ({
      offset,
      recent: readAt(fd, Math.max(0, offset - RECENT_BYTES), offset),
      lines,
    });
    if (lines === 0) return startsAt(size);
    let found = 0;
    // The newline at the very end ends the last line and starts no line.
    for (let end = size - 1; end > 0 && !signal.aborted; end -= CHUNK_BYTES) {
      const start = Math.max(0, end - CHUNK_BYTES);
      const chunk = readAt(fd, start, end);
      for (const at of newlinesBackwards(chunk)) {
        found += 1;
        if (found === lines) return startsAt(start + at + 1);
      }
      await setImmediate();
    }
    return { offset: 0, recent: NOTHING, lines: size === 0 ? 0 : found + 1 };
  } finally {
    closeSync(fd);
  }
}

function* newlinesBackwards(chunk: Buffer): Generator<number> {
  for (let at = chunk.length; ; ) {
    at = chunk.subarray(0, at).lastIndexOf(NEWLINE);
    if (at === -1) return;
    yield at;
  }
}

/** `log.1`, `log.2`, …: newest first. Files after one that is just being renamed are missing. */
function rotatedFiles(dir: string): readonly RotatedFile[] {
  const files: RotatedFile[] = [];
  for (;;) {
    const file = path.join(dir, `log.${files.length + 1}`);
    const found = statSync(file, { throwIfNoEntry: false });
    if (found === undefined) return files;
    files.push({ file, identity: [found.ino, found.mtimeMs, found.size].join(":") });
  }
}

/** Everything from an offset on; nothing if there is no such file. */
function* chunks(file: string, offset: number): Generator<Buffer> {
  const fd = openLog(file);
  if (fd === undefined) return;
  try {
    for (let position = offset; ; ) {
      const bytes = readAt(fd, position, position + CHUNK_BYTES);
      if (bytes.length === 0) return;
      yield bytes;
      position += bytes.length;
    }
  } finally {
    closeSync(fd);
  }
}

/** True if the file has these bytes before this offset. */
function endsAt(file: string, offset: number, bytes: Buffer): boolean {
  const fd = openLog(file);
  if (fd === undefined) return false;
  try {
    return readAt(fd, offset - bytes.length, offset).equals(bytes);
  } finally {
    closeSync(fd);
  }
}

/**
 * Undefined if there is no such file, or no regular one. A symbolic link is an error: a log may be read by a user of
 * another machine, and engines can write to this folder.
 */
function openLog(file: string): number | undefined {
  return undefinedIfMissing(() => openPlainFile(file));
}

function readAt(fd: number, start: number, end: number): Buffer {
  const buffer = Buffer.allocUnsafe(end - start);
  return buffer.subarray(0, readSync(fd, buffer, 0, buffer.length, start));
}

/** Undefined if there is no such file. Other errors are thrown. */
export function undefinedIfMissing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}
