/** SHA-256 of a growing file, with the digest of every prefix of complete chunks: one pass verifies each chunk and the file. */
import { createHash, type Hash } from "node:crypto";

/** Hosts serve content to each other in chunks of this size. */
export const CHUNK_BYTES = 4 << 20;

export class PrefixHash {
  /** Entry `n` is the SHA-256 of the first `n + 1` chunks, in hex. */
  readonly prefixes: string[] = [];
  #hash: Hash = createHash("sha256");
  /** The hash at the end of the last complete chunk. */
  #atChunkEnd: Hash = this.#hash.copy();
  #bytes = 0;

  update(bytes: Uint8Array): void {
    let from = 0;
    while (from < bytes.length) {
      const until = Math.min(bytes.length, from + CHUNK_BYTES - (this.#bytes % CHUNK_BYTES));
      this.#hash.update(bytes.subarray(from, until));
      this.#bytes += until - from;
      from = until;
      this.#endChunk();
    }
  }

  /** Adds the next chunk if the result has the digest that the peer promised. Only valid at the start of a chunk. */
  updateIf(chunk: Uint8Array, digest: string): boolean {
    const hash = this.#hash.copy().update(chunk);
    if (hash.copy().digest("hex") !== digest) return false;
    this.#hash = hash;
    this.#bytes += chunk.length;
    this.#endChunk();
    return true;
  }

  #endChunk(): void {
    if (this.#bytes % CHUNK_BYTES > 0) return;
    this.#atChunkEnd = this.#hash.copy();
    this.prefixes.push(this.digest());
  }

  /** Discards the bytes after the last complete chunk. */
  dropIncompleteChunk(): void {
    this.#hash = this.#atChunkEnd.copy();
    this.#bytes -= this.#bytes % CHUNK_BYTES;
  }

  reset(): void {
    this.prefixes.length = 0;
    this.#hash = createHash("sha256");
    this.#atChunkEnd = this.#hash.copy();
    this.#bytes = 0;
  }

  /** SHA-256 of all bytes so far, in hex. */
  digest(): string {
    return this.#hash.copy().digest("hex");
  }
}
