/** Copies pieces of any size into the process's own blocks: a retained piece of one byte would keep the whole read that it came with. */

const FIRST_BLOCK_BYTES = 4 * 1024;
/** Large enough to be returned to the system when it is freed. */
const BLOCK_BYTES = 256 * 1024;

export class BodyBuffer {
  readonly #blocks: Buffer[] = [];
  /** Bytes used of the last block. */
  #used = 0;
  length = 0;

  /** The number of bytes that `append` will allocate. */
  bytesToAllocate(bytes: number): number {
    const free = (this.#blocks.at(-1)?.length ?? 0) - this.#used;
    return bytes <= free ? 0 : blockBytes(this.length + free, bytes - free);
  }

  append(piece: Buffer): void {
    let remaining = piece;
    while (remaining.length > 0) {
      let block = this.#blocks.at(-1);
      if (block === undefined || this.#used === block.length) {
        block = Buffer.allocUnsafeSlow(blockBytes(this.length, remaining.length));
        this.#blocks.push(block);
        this.#used = 0;
      }
      const copied = remaining.copy(block, this.#used);
      this.#used += copied;
      this.length += copied;
      remaining = remaining.subarray(copied);
    }
  }

  /** Returns views of the blocks, not copies. */
  slice(from: number, to: number): Buffer[] {
    const parts: Buffer[] = [];
    if (from === to) return parts;
    let start = 0;
    for (const block of this.#blocks) {
      const end = start + block.length;
      if (end > from && start < to)
        parts.push(block.subarray(Math.max(from, start) - start, Math.min(to, end) - start));
      start = end;
    }
    return parts;
  }
}

/** Blocks grow with the body, so that a small one takes little. */
function blockBytes(usedBytes: number, bytes: number): number {
  return Math.max(bytes, Math.min(BLOCK_BYTES, Math.max(FIRST_BLOCK_BYTES, usedBytes)));
}
