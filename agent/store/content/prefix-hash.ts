/** SHA-256 of a file that grows, with the digest of every prefix of whole chunks: one pass proves each chunk and the file. */
import { createHash, type Hash } from "node:crypto";

/** What hosts give each other at a time. */
export const CHUNK_BYTES = 4 << 20;

export class PrefixHash {
  /** In hex: entry `n` is the SHA-256 of the first `n + 1` chunks together. */
  readonly prefixes: string[] = [];
  #hash: Hash = createHash("sha256");
  /** Of the whole chunks alone. */
  #whole: Hash = this.#hash.copy();
  #bytes = 0;

  update(bytes: Uint8Array): void {
    let from = 0;
    while (from < bytes.length) {
      const until = Math.min(bytes.length, from + CHUNK_BYTES - (this.#bytes % CHUNK_BYTES));
      this.#hash.update(bytes.subarray(from, until));
      this.#bytes += until - from;
      from = until;
      if (this.#bytes % CHUNK_BYTES > 0) continue;
      this.#whole = this.#hash.copy();
      this.prefixes.push(this.digest());
    }
  }

  /** Takes the next chunk if it makes the prefix that its giver says it makes; only from the start of a chunk. */
  updateIf(chunk: Uint8Array, digest: string): boolean {
    const hash = this.#hash.copy().update(chunk);
    if (hash.copy().digest("hex") !== digest) return false;
    this.#hash = hash;
    this.#bytes += chunk.length;
    if (this.#bytes % CHUNK_BYTES > 0) return true;
    this.#whole = this.#hash.copy();
    this.prefixes.push(digest);
    return true;
  }

  /** Forgets what is behind the last whole chunk. */
  keepWholeChunks(): void {
    this.#hash = this.#whole.copy();
    this.#bytes -= this.#bytes % CHUNK_BYTES;
  }

  reset(): void {
    this.prefixes.length = 0;
    this.#hash = createHash("sha256");
    this.#whole = this.#hash.copy();
    this.#bytes = 0;
  }

  /** Of all so far. */
  digest(): string {
    return this.#hash.copy().digest("hex");
  }
}
