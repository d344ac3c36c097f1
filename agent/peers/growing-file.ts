/** The part that a content is taken into: chunks of several peers, in order, each verified before it is written. */
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import { firstBytesCheck } from "../store/download/body.ts";
import type { DownloadContext, SharedFile } from "../store/download/context.ts";
import type { DownloadPart, OpenPart } from "../store/download/part.ts";
import { ADMIT_EVERY_BYTES } from "../store/download/receive.ts";
import { writeAll } from "../store/download/response-writer.ts";
import { PeerProtocolError } from "./client.ts";

/** The part, to which lanes add their chunks in order. */
export class GrowingFile {
  readonly totalBytes: number;
  readonly #opened: OpenPart;
  readonly #file: SharedFile;
  readonly #context: DownloadContext;
  readonly #waiting = new Set<() => void>();
  /** What is verified; the disk is behind it while chunks are written. */
  #hashed: number;
  #written: Promise<void> = Promise.resolve();
  #bytes: number;
  #claimed = 0;
  #admittedUntil = -1;

  /** `totalBytes`: by the origin. */
  constructor(opened: OpenPart, file: SharedFile, totalBytes: number, context: DownloadContext) {
    this.#opened = opened;
    this.#file = file;
    this.#context = context;
    this.#bytes = opened.sizeBytes;
    this.#hashed = this.#bytes;
    this.totalBytes = totalBytes;
    this.#tell();
  }

  /** For whoever continues the part: bytes whose write failed are missing from the file, which shows in its size. */
  remember(part: DownloadPart): void {
    part.hash = this.#opened.hash;
    part.hashedBytes = this.#hashed;
  }

  isWhole(): boolean {
    return this.#bytes >= this.totalBytes;
  }

  /** Chunks that a failed lane had are fetched again. Rejects where one could not be written. */
  async beginRound(): Promise<void> {
    // A round that was broken off reports no failed write, and the file then has fewer bytes than are verified.
    await this.#written;
    this.#claimed = this.#bytes / CHUNK_BYTES;
  }

  /** Undefined when all are asked for. */
  nextChunk(): number | undefined {
    if (this.#claimed * CHUNK_BYTES >= this.totalBytes) return undefined;
    this.#claimed += 1;
    return this.#claimed - 1;
  }

  /**
   * Waits for the chunks before it; throws PeerLie for bytes that are not what their giver says. The next chunk
   * is verified while this one is written.
   */
  async append(chunk: number, bytes: Buffer, prefix: string, signal: AbortSignal): Promise<void> {
    const start = chunk * CHUNK_BYTES;
    await this.#until(() => this.#hashed >= start, signal);
    if (chunk === 0) this.#checkStart(bytes);
    await this.#admit();
    signal.throwIfAborted();
    if (!this.#opened.hash.updateIf(bytes, prefix)) throw new PeerProtocolError("it sent wrong bytes");
    this.#hashed += bytes.length;
    // One after the other: a part that breaks off is resumed with all that it has, so it must have no holes.
    const written = this.#written.then(async () => {
      await writeAll(this.#opened.file, bytes, bytes.length, start);
      this.#bytes += bytes.length;
      this.#context.onReceived?.(bytes.length);
      this.#tell();
    });
    this.#written = written;
    this.#wake();
    await written;
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

  #tell(): void {
    const { totalBytes } = this;
    if (this.#bytes > 0) {
      this.#context.onProgress(this.#bytes, totalBytes);
      this.#context.onStored?.({ hash: this.#opened.hash, bytes: this.#bytes, totalBytes });
    }
    this.#wake();
  }

  #wake(): void {
    for (const look of [...this.#waiting]) look();
  }

  #until(isReached: () => boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const finish = (): void => {
        this.#waiting.delete(look);
        signal.removeEventListener("abort", look);
        if (signal.aborted) reject(signal.reason);
        else resolve();
      };
      const look = (): void => {
        if (signal.aborted || isReached()) finish();
      };
      this.#waiting.add(look);
      signal.addEventListener("abort", look, { once: true });
      look();
    });
  }
}
