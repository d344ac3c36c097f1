/** Follows a file to which another process appends lines, also when it is renamed and opened again. */
import { watch } from "node:fs";
import { type FileHandle, open, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { writeFileAtomic } from "../../src/util/atomic-file.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { repeat } from "../../src/util/repeat.ts";

export interface FollowOptions {
  readonly file: string;
  /** Keeps the position, so that the next process continues there. */
  readonly positionFile: string;
  readonly onLines: (lines: readonly string[]) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface FollowedFile {
  /** Reads all lines up to now, and keeps the position. */
  readonly settle: () => Promise<void>;
  /** Bytes in the file. */
  readonly size: () => number;
}

const CHUNK_BYTES = 256 * 1024;
/** The file system reports changes at once; this is for one that does not. */
const RECHECK_MS = 1_000;

interface Position {
  readonly inode: number;
  readonly offset: number;
}

/** Resolves once it follows. Existing lines after the kept position are read first; without one, reading starts at the end. */
export async function followFile(options: FollowOptions): Promise<FollowedFile> {
  const follower = new Follower(options);
  await follower.start();
  return { settle: () => follower.settle(), size: () => follower.offset };
}

class Follower {
  offset = 0;
  readonly #options: FollowOptions;
  #handle: FileHandle | undefined;
  #inode = 0;
  #rest = "";
  #buffer = Buffer.alloc(CHUNK_BYTES);
  #reading: Promise<void> | undefined;
  #isAgain = false;
  #kept: Position = { inode: 0, offset: 0 };

  constructor(options: FollowOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { file, signal, log } = this.#options;
    const kept = await readPosition(this.#options.positionFile);
    await this.#open();
    if (this.#handle !== undefined) {
      const { size } = await this.#handle.stat();
      this.offset =
        kept?.inode === this.#inode && kept.offset <= size ? kept.offset : kept === undefined ? size : 0;
    }
    const watcher = watch(path.dirname(file), { signal, persistent: false }, (_, name) => {
      if (name === null || name === path.basename(file)) void this.#read();
    });
    watcher.on("error", (err) =>
      log.warn({ err, file }, "cannot watch the access log; it is read once a second"),
    );
    signal.addEventListener("abort", () => void this.#handle?.close().catch(() => {}), { once: true });
    repeat(this.#options, RECHECK_MS, () => this.settle());
    await this.#read();
  }

  async settle(): Promise<void> {
    await this.#read();
    await this.#keep();
  }

  /** One read at a time; a change during a read causes another one. */
  #read(): Promise<void> {
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

  async #readOnce(): Promise<void> {
    await this.#readToEnd();
    const found = await stat(this.#options.file).catch(() => undefined);
    if (found === undefined || found.ino === this.#inode) return;
    // The writer has opened a new file, so the old one is complete.
    await this.#readToEnd();
    await this.#handle?.close();
    this.offset = 0;
    this.#rest = "";
    await this.#open();
    await this.#readToEnd();
  }

  async #readToEnd(): Promise<void> {
    for (;;) {
      const result = await this.#handle?.read(this.#buffer, 0, CHUNK_BYTES, this.offset);
      if (result === undefined || result.bytesRead === 0) return;
      this.offset += result.bytesRead;
      const lines = (this.#rest + this.#buffer.toString("utf8", 0, result.bytesRead)).split("\n");
      this.#rest = lines.pop() ?? "";
      if (lines.length > 0) this.#options.onLines(lines);
    }
  }

  async #open(): Promise<void> {
    this.#handle = await open(this.#options.file, "r").catch(() => undefined);
    this.#inode = (await this.#handle?.stat())?.ino ?? 0;
  }

  async #keep(): Promise<void> {
    const position = { inode: this.#inode, offset: this.offset - Buffer.byteLength(this.#rest) };
    if (position.inode === this.#kept.inode && position.offset === this.#kept.offset) return;
    this.#kept = position;
    await writeFileAtomic(this.#options.positionFile, JSON.stringify(position)).catch((err: unknown) =>
      this.#options.log.warn({ err }, "cannot keep the position in the access log"),
    );
  }
}

async function readPosition(file: string): Promise<Position | undefined> {
  try {
    const { inode, offset } = JSON.parse(await readFile(file, "utf8")) as Partial<Position>;
    return typeof inode === "number" && typeof offset === "number" ? { inode, offset } : undefined;
  } catch {
    return undefined;
  }
}
