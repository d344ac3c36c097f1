/** The buffer allocator of the engine: best fit, and the last free block grows. Its peak is the size of the buffer. */

export interface BufferPool {
  /** Offset of the new block. */
  readonly take: (bytes: number) => number;
  readonly give: (offset: number, bytes: number) => void;
  readonly peakBytes: () => number;
}

interface Block {
  offset: number;
  bytes: number;
}

export function createBufferPool(alignment: number): BufferPool {
  /** Sorted by offset; the last block has no end. */
  const free: Block[] = [{ offset: 0, bytes: Number.POSITIVE_INFINITY }];
  const aligned = (bytes: number) => Math.ceil(bytes / alignment) * alignment;
  let peak = 0;
  const take = (bytes: number): number => {
    const length = aligned(bytes);
    const index = bestFit(free, length);
    const block = free[index];
    if (block === undefined) return peak;
    const { offset } = block;
    block.offset += length;
    block.bytes -= length;
    if (block.bytes === 0) free.splice(index, 1);
    peak = Math.max(peak, offset + length);
    return offset;
  };
  const give = (offset: number, bytes: number): void => {
    const length = aligned(bytes);
    const next = free.findIndex((block) => block.offset >= offset + length);
    const after = free[next];
    const before = free[next - 1];
    const joinsAfter = after !== undefined && after.offset === offset + length;
    if (before !== undefined && before.offset + before.bytes === offset) {
      before.bytes += length;
      if (!joinsAfter) return;
      before.bytes += after.bytes;
      free.splice(next, 1);
    } else if (joinsAfter) {
      after.offset = offset;
      after.bytes += length;
    } else {
      free.splice(next, 0, { offset, bytes: length });
    }
  };
  return { take, give, peakBytes: () => peak };
}

/** The smallest free block that is large enough; the last block only if no other is. */
function bestFit(free: readonly Block[], length: number): number {
  let best = free.length - 1;
  let least = Number.POSITIVE_INFINITY;
  for (let index = 0; index < free.length - 1; index++) {
    const bytes = free[index]?.bytes ?? 0;
    // Selects the last of equal blocks, as the engine does.
    if (bytes >= length && bytes <= least) {
      best = index;
      least = bytes;
    }
  }
  return best;
}
