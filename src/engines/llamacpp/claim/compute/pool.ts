/** The engine's allocator of one buffer, followed step by step: best fit, the last free block grows. Its peak is the size of the buffer. */

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
  /** In the order of their offsets; the last one has no end. */
  const free: Block[] = [{ offset: 0, bytes: Number.POSITIVE_INFINITY }];
  const aligned = (bytes: number) => Math.ceil(bytes / alignment) * alignment;
  let peak = 0;
  const take = (bytes: number): number => {
    const wanted = aligned(bytes);
    const index = bestFit(free, wanted);
    const block = free[index];
    if (block === undefined) return peak;
    const { offset } = block;
    block.offset += wanted;
    block.bytes -= wanted;
    if (block.bytes === 0) free.splice(index, 1);
    peak = Math.max(peak, offset + wanted);
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

/** The smallest free block that is large enough; the last one only where no other is. */
function bestFit(free: readonly Block[], wanted: number): number {
  let best = free.length - 1;
  let least = Number.POSITIVE_INFINITY;
  for (let index = 0; index < free.length - 1; index++) {
    const bytes = free[index]?.bytes ?? 0;
    // The last of equals, as the engine does.
    if (bytes >= wanted && bytes <= least) {
      best = index;
      least = bytes;
    }
  }
  return best;
}
