/** The part file of a peer download: chunks of several peers, in order, each verified before it is written. */
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import { firstBytesCheck } from "../store/download/body.ts";
import type { DownloadContext, SharedFile } from "../store/download/context.ts";
import type { DownloadPart, OpenPart } from "../store/download/part.ts";
import { ADMIT_EVERY_BYTES } from "../store/download/receive.ts";
import { writeAll } from "../store/download/response-writer.ts";
import { PeerProtocolError } from "./client.ts";

/** The part file, to which lanes append their chunks in order. */
export class GrowingFile {
  readonly totalBytes: number;
  readonly #opened: OpenPart;
  readonly #file: SharedFile;
  readonly #context: DownloadContext;
  readonly #conditions = new Set<() => void>();
  /** Verified bytes, which may not be on disk yet. */
  #hashed: number;
  #lastWrite: Promise<void> = Promise.resolve();
  #bytes: number;
  #claimed = 0;
  #admittedUntil = -1;

  /** `totalBytes`: the size that the origin reports. */
  constructor(opened: OpenPart, file: SharedFile, totalBytes: number, context: DownloadContext) {
    this.#opened = opened;
    this.#file = file;
    this.#context = context;
    this.#bytes = opened.sizeBytes;
    this.#hashed = this.#bytes;
    this.totalBytes = totalBytes;
    this.#report();
  }

  /** Records the hash for the next download of the part. Bytes whose write failed are missing from the file, as its size shows. */
  saveHash(part: DownloadPart): void {
    part.hash = this.#opened.hash;
    part.hashedBytes = this.#hashed;
  }

  isWhole(): boolean {
    return this.#bytes >= this.totalBytes;
  }

  /** Makes chunks of a failed lane available again. Rejects if a chunk could not be written. */
  async beginRound(): Promise<void> {
    // An aborted round does not report a failed write, after which the file has fewer bytes than are verified.
    await this.#lastWrite;
    this.#claimed = this.#bytes / CHUNK_BYTES;
  }

  /** Undefined once all chunks are claimed. */
  nextChunk(): number | undefined {
    if (this.#claimed * CHUNK_BYTES >= this.totalBytes) return undefined;
    this.#claimed += 1;
    return this.#claimed - 1;
  }

  /**
   * Waits for the chunks before this one. Throws PeerProtocolError for bytes that do not match the peer's digest. The next
   * chunk is verified while this one is written.
   */
  async append(chunk: number, bytes: Buffer, prefix: string, signal: AbortSignal): Promise<void> {
    const start = chunk * CHUNK_BYTES;
    await this.#until(() => this.#hashed >= start, signal);
    if (chunk === 0) this.#checkStart(bytes);
    await this.#admit();
    signal.throwIfAborted();
    if (!this.#opened.hash.updateIf(bytes, prefix)) throw new PeerProtocolError("the peer sent wrong bytes");
    this.#hashed += bytes.length;
    // Writes are serialized: an aborted part is resumed with all of its bytes, so it must have no holes.
    const write = this.#lastWrite.then(async () => {
      await writeAll(this.#opened.file, bytes, bytes.length, start);
      this.#bytes += bytes.length;
      this.#context.onReceived?.(bytes.length);
      this.#report();
    });
    this.#lastWrite = write;
    this.#checkConditions();
    await write;
    await this.#context.pace?.(bytes.length, signal);
  }

  #checkStart(bytes: Buffer): void {
    try {
      firstBytesCheck(this.#file, undefined)(bytes);
    } catch (error) {
      throw new PeerProtocolError(error instanceof Error ? error.message : String(error));
    }
  }

  async #admit(): Promise<void> {
    if (this.#bytes < this.#admittedUntil) return;
    this.#admittedUntil = this.#bytes + ADMIT_EVERY_BYTES;
    await this.#context.admit(this.totalBytes - this.#bytes);
  }

  #report(): void {
    const { totalBytes } = this;
    if (this.#bytes > 0) {
      this.#context.onProgress(this.#bytes, totalBytes);
      this.#context.onStored?.({ hash: this.#opened.hash, bytes: this.#bytes, totalBytes });
    }
    this.#checkConditions();
  }

  #checkConditions(): void {
    for (const check of [...this.#conditions]) check();
  }

  #until(isReached: () => boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const check = (): void => {
        if (!signal.aborted && !isReached()) return;
        this.#conditions.delete(check);
        signal.removeEventListener("abort", check);
        if (signal.aborted) reject(signal.reason);
        else resolve();
      };
      this.#conditions.add(check);
      signal.addEventListener("abort", check, { once: true });
      check();
    });
  }
}
