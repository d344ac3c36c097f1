/** Streams a response to disk and through SHA-256 in one pass, in large blocks, with flat memory. */
import type { Hash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import type { IncomingMessage } from "node:http";

export interface SinkOptions {
  /** Opened for append. */
  readonly file: FileHandle;
  readonly hash: Hash;
  /** Given the first bytes of the file once there are four, or all there are; throws to refuse them. Absent when resuming. */
  readonly checkStart?: ((bytes: Uint8Array) => void) | undefined;
  /** Called after each block that reached the file; throws to stop. */
  readonly onBlock: (writtenBytes: number) => Promise<void> | void;
}

const BLOCK_BYTES = 1 << 20;
const BLOCKS = 4;

/**
 * Ends when the response ends; throws what the response or the disk throws, after everything that arrived was written.
 * Each block is hashed on this thread while the thread pool writes it; when all blocks are under way, reading pauses.
 */
export async function sink(response: IncomingMessage, options: SinkOptions): Promise<void> {
  const blocks = blockWriter(options);
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      // A wait per chunk would cost more than the copy: only a full set of blocks waits.
      const full = blocks.push(chunk);
      if (full !== undefined) await full;
    }
  } catch (error) {
    await blocks.end().catch(() => undefined);
    throw error;
  }
  await blocks.end();
}

interface BlockWriter {
  /** Copies the chunk; a promise means: wait for it before the next push. */
  readonly push: (chunk: Buffer) => Promise<void> | undefined;
  readonly end: () => Promise<void>;
}

function blockWriter({ file, hash, checkStart, onBlock }: SinkOptions): BlockWriter {
  const free: Buffer[] = Array.from({ length: BLOCKS }, () => Buffer.allocUnsafeSlow(BLOCK_BYTES));
  const underWay: Promise<void>[] = [];
  let block: Buffer | undefined = free.pop();
  let used = 0;
  let written = 0;
  let unchecked = checkStart;

  const write = async (full: Buffer, length: number, before: Promise<void> | undefined): Promise<void> => {
    await before;
    await writeAll(file, full, length);
    written += length;
    free.push(full);
    await onBlock(written);
  };
  const flush = (): void => {
    if (block === undefined || used === 0) return;
    const full = block.subarray(0, used);
    unchecked?.(full);
    unchecked = undefined;
    const writing = write(block, used, underWay.at(-1));
    // The failure is thrown by the wait for this block; until then it must not count as unhandled.
    writing.catch(() => undefined);
    underWay.push(writing);
    hash.update(full);
    block = free.pop();
    used = 0;
  };
  const nextBlock = async (): Promise<Buffer> => {
    for (;;) {
      const spare = free.pop();
      if (spare !== undefined) return spare;
      await underWay.shift();
    }
  };
  const pushSlowly = async (chunk: Buffer, start: number): Promise<void> => {
    let from = start;
    while (from < chunk.length) {
      block ??= await nextBlock();
      const copied = chunk.copy(block, used, from);
      used += copied;
      from += copied;
      if (used === BLOCK_BYTES || (unchecked !== undefined && used >= 4)) flush();
    }
  };
  return {
    push: (chunk) => {
      if (block !== undefined && unchecked === undefined && used + chunk.length < BLOCK_BYTES) {
        used += chunk.copy(block, used);
        return undefined;
      }
      return pushSlowly(chunk, 0);
    },
    end: async () => {
      flush();
      await Promise.all(underWay);
    },
  };
}

async function writeAll(file: FileHandle, block: Buffer, length: number): Promise<void> {
  let from = 0;
  while (from < length) {
    const { bytesWritten } = await file.write(block, from, length - from);
    from += bytesWritten;
  }
}
