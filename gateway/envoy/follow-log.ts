/** Follows a file to which another process appends lines, across rotations by rename. */
import { watch } from "node:fs";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import path from "node:path";
import type { Clock, Log } from "../../src/util/ports.ts";
import { repeat } from "../../src/util/repeat.ts";

export interface LogOptions {
  readonly file: string;
  /** Position up to which the previous process read. If undefined, reading starts at the end. */
  readonly from: LogPosition | undefined;
  /** Called with new lines and the position after them. The first call has no lines and the start position. */
  readonly onLines: (lines: readonly string[], position: LogPosition) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** End of a complete line, in a file that may have been renamed since. */
export interface LogPosition {
  readonly inode: number;
  readonly offset: number;
}

export interface FollowedFile {
  /** Reads all lines written so far. */
  readonly settle: () => Promise<void>;
  /** Bytes in the file. */
  readonly size: () => number;
}

const CHUNK_BYTES = 256 * 1024;
/** Time between two reads of a busy file: one costs as much as a decision. For a line wait its tokens, and the slot of a request that failed. */
const PAUSE_MS = 50;
/** For file systems that do not report changes. */
const RECHECK_MS = 1_000;

/** Resolves when following. */
export async function followFile(options: LogOptions): Promise<FollowedFile> {
  const follower = new Follower(options);
  await follower.start();
  return { settle: () => follower.read(), size: () => follower.offset };
}

class Follower {
  offset = 0;
  readonly #options: LogOptions;
  #handle: FileHandle | undefined;
  #inode = 0;
  #rest = "";
  #buffer = Buffer.alloc(CHUNK_BYTES);
  #reading: Promise<void> | undefined;
  #isAgain = false;
  #isPausing = false;
  #hasChanged = false;

  constructor(options: LogOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { file, signal, log, onLines } = this.#options;
    await this.#openFrom(this.#options.from);
    onLines([], this.#position());
    const unwatched = (err: unknown): void =>
      log.warn({ err, file }, "cannot watch the access log; reading it once a second");
    try {
      const watcher = watch(path.dirname(file), { signal, persistent: false }, (_, name) => {
        if (name === null || name === path.basename(file)) this.#readChange();
      });
      watcher.on("error", unwatched);
    } catch (error) {
      // Linux limits watches per user, and reports ENOSPC.
      unwatched(error);
    }
    signal.addEventListener("abort", () => void this.#handle?.close().catch(() => {}), { once: true });
    repeat(this.#options, RECHECK_MS, () => this.read());
    await this.read();
  }

  /** Reads are serialized; a change during a read triggers another one. */
  read(): Promise<void> {
    if (this.#reading !== undefined) {
      this.#isAgain = true;
      return this.#reading;
    }
    const run = async (): Promise<void> => {
      do {
        this.#isAgain = false;
        await this.#readOnce();
      } while (this.#isAgain && !this.#options.signal.aborted);
    };
    this.#reading = run()
      .catch((err: unknown) => {
        if (!this.#options.signal.aborted)
          this.#options.log.warn({ err, file: this.#options.file }, "cannot read the access log");
      })
      .finally(() => {
        this.#reading = undefined;
      });
    return this.#reading;
  }

  /** The first change after a pause at once. */
  #readChange(): void {
    this.#hasChanged = true;
    if (this.#isPausing || this.#options.signal.aborted) return;
    this.#isPausing = true;
    this.#hasChanged = false;
    void this.read();
    this.#options.clock.after(PAUSE_MS, () => {
      this.#isPausing = false;
      if (this.#hasChanged) this.#readChange();
    });
  }

  async #readOnce(): Promise<void> {
    await this.#readToEnd();
    const found = await stat(this.#options.file).catch(() => undefined);
    if (found === undefined) return;
    if (found.ino === this.#inode) {
      if (found.size < this.offset) await this.#readFromStart();
      return;
    }
    // The writer opened a new file, so the old one is complete.
    await this.#readToEnd();
    await this.#handle?.close();
    await this.#open(this.#options.file);
    await this.#readFromStart();
  }

  async #readFromStart(): Promise<void> {
    this.offset = 0;
    this.#rest = "";
    await this.#readToEnd();
  }

  async #readToEnd(): Promise<void> {
    for (;;) {
      const result = await this.#handle?.read(this.#buffer, 0, CHUNK_BYTES, this.offset);
      if (result === undefined || result.bytesRead === 0) return;
      this.offset += result.bytesRead;
      const lines = (this.#rest + this.#buffer.toString("utf8", 0, result.bytesRead)).split("\n");
      this.#rest = lines.pop() ?? "";
      if (lines.length > 0) this.#options.onLines(lines, this.#position());
    }
  }

  /** If the file was rotated while no gateway ran, the old file is read to its end first. */
  async #openFrom(from: LogPosition | undefined): Promise<void> {
    const { file } = this.#options;
    await this.#open(file);
    const { size = 0 } = (await this.#handle?.stat()) ?? {};
    if (from === undefined) this.offset = size;
    else if (from.inode === this.#inode) this.offset = from.offset <= size ? from.offset : 0;
    else {
      const renamed = await fileOf(from.inode, file);
      if (renamed === undefined) return;
      await this.#handle?.close();
      await this.#open(renamed);
      this.offset = from.offset;
    }
  }

  async #open(file: string): Promise<void> {
    this.#handle = await open(file, "r").catch(() => undefined);
    this.#inode = (await this.#handle?.stat())?.ino ?? 0;
  }

  #position(): LogPosition {
    return { inode: this.#inode, offset: this.offset - Buffer.byteLength(this.#rest) };
  }
}

/** The rotated log with this inode. */
async function fileOf(inode: number, log: string): Promise<string | undefined> {
  const names = await readdir(path.dirname(log)).catch(() => []);
  for (const name of names.filter((one) => one.startsWith(`${path.basename(log)}.`))) {
    const file = path.join(path.dirname(log), name);
    if ((await stat(file).catch(() => undefined))?.ino === inode) return file;
  }
  return undefined;
}
