/**
 * Reads a log on while the agent rotates it in place: copy to `log.1`, truncate. What was not read before the truncation
 * is read from the copy, from the place where the last bytes read are found.
 */
import path from "node:path";
import { openOrNothing, type RotatedPart, readFrom, rotatedPart, rotatedParts } from "./parts.ts";
import { type LogPlace, MEMORY_BYTES } from "./place.ts";

export interface LogReader {
  /** What has come since the last call; ends when there is no more for now. */
  readonly readOn: () => AsyncGenerator<Buffer>;
  /** True between a truncation and the arrival of its copy: there is more to come. */
  readonly isWaiting: () => boolean;
  /** Parts of the log that were lost to a rotation, for example on a full disk. */
  readonly losses: () => number;
}

const CHUNK_BYTES = 256 * 1024;
/** Read again with each chunk, to see that the file is still the one that was read before. */
const OVERLAP_BYTES = 1024;
/** The copy of a log is no larger than what it is rotated at; beyond this the place is not looked for. */
const SEARCH_BYTES = 64 * 1024 * 1024;
/** So many looks for a copy that should be there, after which the truncation was one without a copy. */
const LOOKS_FOR_COPY = 10;

/** `dir` is the engine's folder. */
export function createLogReader(dir: string, from: LogPlace): LogReader {
  const reader = new Reader(dir, from);
  return {
    readOn: () => reader.readOn(),
    isWaiting: () => reader.isWaiting,
    losses: () => reader.losses,
  };
}

class Reader {
  losses = 0;
  readonly #dir: string;
  readonly #file: string;
  #offset: number;
  #recent: Buffer;
  #newestPart: string | undefined;
  #looks = 0;

  constructor(dir: string, { offset, recent, newestPart }: LogPlace) {
    this.#dir = dir;
    this.#file = path.join(dir, "log");
    this.#offset = offset;
    this.#recent = recent;
    this.#newestPart = newestPart;
  }

  get isWaiting(): boolean {
    return this.#looks > 0;
  }

  async *readOn(): AsyncGenerator<Buffer> {
    for (;;) {
      const next = await this.#next();
      if (next === "nothing") return;
      if (next !== "rotated") {
        this.#remember(next);
        yield next;
        continue;
      }
      const parts = await this.#newParts();
      if (parts === undefined) return;
      for (const [index, part] of parts.entries()) {
        const from = index === 0 ? await this.#placeIn(part) : 0;
        yield* readFrom(part.file, from);
      }
      this.#offset = 0;
      this.#recent = Buffer.alloc(0);
    }
  }

  /** A new copy means a rotation; so does, before the copy is in place, a log that is another file than before. */
  async #next(): Promise<Buffer | "nothing" | "rotated"> {
    const newest = await rotatedPart(this.#dir, 1);
    if (newest !== undefined && newest.identity !== this.#newestPart) return "rotated";
    const handle = await openOrNothing(this.#file);
    if (handle === undefined) return "nothing";
    try {
      const { size } = await handle.stat();
      if (size < this.#offset) return "rotated";
      const overlap = this.#recent.subarray(-OVERLAP_BYTES);
      const length = overlap.length + CHUNK_BYTES;
      const { buffer, bytesRead } = await handle.read(
        Buffer.allocUnsafe(length),
        0,
        length,
        this.#offset - overlap.length,
      );
      if (bytesRead < overlap.length || !buffer.subarray(0, overlap.length).equals(overlap)) return "rotated";
      return bytesRead === overlap.length ? "nothing" : buffer.subarray(overlap.length, bytesRead);
    } finally {
      await handle.close();
    }
  }

  #remember(bytes: Buffer): void {
    this.#offset += bytes.length;
    const all = Buffer.concat([this.#recent, bytes.subarray(-MEMORY_BYTES)]);
    this.#recent = Buffer.from(all.subarray(-MEMORY_BYTES));
  }

  /** Oldest first: the copies made since the last look. Undefined while the one that must come is not there. */
  async #newParts(): Promise<readonly RotatedPart[] | undefined> {
    const parts = await rotatedParts(this.#dir);
    const known = parts.findIndex(({ identity }) => identity === this.#newestPart);
    const fresh = known === -1 ? parts : parts.slice(0, known);
    if (fresh.length === 0) {
      this.#looks += 1;
      if (this.#looks < LOOKS_FOR_COPY) return undefined;
      this.losses += 1;
    }
    this.#looks = 0;
    this.#newestPart = parts[0]?.identity;
    return fresh.toReversed();
  }

  /** Behind the last bytes that were read. They lie no further back in a copy than in the log, whose head may be left out. */
  async #placeIn({ file, sizeBytes }: RotatedPart): Promise<number> {
    const recent = this.#recent;
    if (recent.length === 0) return 0;
    const end = Math.min(this.#offset, sizeBytes);
    const start = Math.max(0, end - SEARCH_BYTES);
    const found = await readExactly(file, start, end);
    const at = found.lastIndexOf(recent);
    if (at !== -1) return start + at + recent.length;
    const beginning = start === 0 ? sharedLength(recent, found) : 0;
    if (beginning === 0) this.losses += 1;
    return beginning;
  }
}

/** How much of the end of one is the beginning of the other. */
function sharedLength(ending: Buffer, beginning: Buffer): number {
  for (let length = Math.min(ending.length, beginning.length); length > 0; length -= 1) {
    if (ending.subarray(ending.length - length).equals(beginning.subarray(0, length))) return length;
  }
  return 0;
}

async function readExactly(file: string, start: number, end: number): Promise<Buffer> {
  const handle = await openOrNothing(file);
  if (handle === undefined) return Buffer.alloc(0);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(end - start), 0, end - start, start);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
