/** Streams a response to disk and through SHA-256 in one pass, in large blocks, with constant memory. */
import type { FileHandle } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { finished } from "node:stream";
import type { PrefixHash } from "../content/prefix-hash.ts";

export interface SinkOptions {
  readonly file: FileHandle;
  /** File offset of the first byte of the response. */
  readonly startsAt: number;
  /** Absent: the caller hashes the file. */
  readonly hash?: PrefixHash | undefined;
  /** Called with the first four or more bytes of the file, or with all bytes of a shorter one. Throws to refuse them. Absent when resuming. */
  readonly checkStart?: ((bytes: Uint8Array) => void) | undefined;
  /** Returns the offset up to which the response may be read. Returning the argument ends the read. Absent: no limit. */
  readonly limit?: ((offset: number) => number) | undefined;
  /** Counts bytes against the bandwidth limit. The reader waits for a returned promise before it reads more. */
  readonly pace?: ((bytes: number) => Promise<void> | undefined) | undefined;
  /** Bytes that are hashed and written at a time; one connection has up to three such blocks. */
  readonly blockBytes?: number;
  /** Called with the size of each block that was written to the file. Throws to stop. */
  readonly onBlock: (bytes: number) => Promise<void> | void;
}

const BLOCK_BYTES = 512 << 10;
const BLOCKS = 3;

/**
 * Resolves at the end of the response or at its limit. Throws the error of the response or the disk after all received bytes
 * were written. The thread pool writes each block while this thread hashes it. Reading pauses while all blocks are in use.
 */
export async function writeResponse(response: IncomingMessage, options: SinkOptions): Promise<void> {
  const { startsAt, limit = () => Number.POSITIVE_INFINITY, pace } = options;
  const blocks = blockWriter(options);
  let offset = startsAt;
  freeSocketBuffers(response.socket);
  const take = (chunk: Buffer): Promise<void> | undefined => {
    const allowed = limitChunk(chunk, offset, limit);
    const { length } = allowed;
    offset += length;
    const copied = () => {
      freeBuffer(chunk);
      return pace?.(length);
    };
    // A wait per chunk would cost more than the copy, so it waits only if no block is free.
    const pushed = blocks.push(allowed);
    return pushed === undefined ? copied() : pushed.then(copied);
  };
  try {
    await eachChunk(response, take, () => limit(offset) <= offset);
  } catch (error) {
    // An error of the disk takes precedence, because the hash is then ahead of the file.
    await blocks.end();
    throw error;
  }
  await blocks.end();
}

/**
 * Calls `take` with each chunk as it arrived, because an iterator would join queued chunks into new buffers. Reading pauses
 * while a promise of `take` is pending. Resolves at the end of the response. Once `isDone`, the response is destroyed.
 */
function eachChunk(
  response: IncomingMessage,
  take: (chunk: Buffer) => Promise<void> | undefined,
  isDone: () => boolean,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let taken: Promise<void> = Promise.resolve();
  const settle = (error?: unknown): void => {
    forget();
    response.off("data", onData);
    if (!(error instanceof Error)) return void taken.then(resolve, reject);
    taken.then(drain).then(() => reject(error), reject);
  };
  /** Takes the chunks that arrived while reading was paused, which are still readable after the connection broke. */
  const drain = async (): Promise<void> => {
    for (let chunk = response.read(); chunk !== null; chunk = response.read()) await take(chunk);
  };
  const next = (): void => {
    if (isDone()) {
      response.destroy();
      settle();
      return;
    }
    // A broken response keeps its chunks for `drain`; resuming it would discard them.
    if (!response.destroyed) response.resume();
  };
  const onData = (chunk: Buffer): void => {
    const wait = take(chunk);
    if (wait === undefined) {
      if (isDone()) next();
      return;
    }
    response.pause();
    taken = wait.then(next);
    taken.catch(settle);
  };
  // The caller may destroy the response later with an error, which is irrelevant here.
  response.on("error", () => undefined);
  const forget = finished(response, { writable: false }, settle);
  response.on("data", onData);
  return promise;
}

/**
 * Frees the buffers of socket reads early. Each read has its own buffer, as does each chunk that the parser copies out of it.
 * Without this, they grow to 100 MB of cold memory before the garbage collector runs.
 */
export function freeSocketBuffers(socket: Socket): void {
  let before: Buffer | undefined;
  // The parser has finished with the previous read, because its listener runs before this one.
  socket.on("data", (read: Buffer) => {
    if (before !== undefined) freeBuffer(before);
    before = read;
  });
}

/** Frees the memory of a buffer that is no longer read, unless it shares the memory with other buffers. */
export function freeBuffer({ buffer, length }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0);
}

/** The allowed bytes of a chunk that begins at `offset`. The limit is read again if it ends within the chunk. */
function limitChunk(chunk: Buffer, offset: number, limit: (offset: number) => number): Buffer {
  let length = 0;
  for (let end = limit(offset); length < chunk.length && end > offset + length; end = limit(offset + length))
    length = Math.min(chunk.length, end - offset);
  return length === chunk.length ? chunk : chunk.subarray(0, length);
}

interface BlockWriter {
  /** Copies the chunk. The caller must wait for a returned promise before the next push. */
  readonly push: (chunk: Buffer) => Promise<void> | undefined;
  readonly end: () => Promise<void>;
}

function blockWriter(options: SinkOptions): BlockWriter {
  const { file, startsAt, hash, checkStart, onBlock, blockBytes = BLOCK_BYTES } = options;
  const free: Buffer[] = [];
  const underWay: Promise<void>[] = [];
  let made = 0;
  /** Allocates blocks on demand: with a disk that is faster than the network, two are enough. */
  const freeBlock = (): Buffer | undefined => {
    if (free.length > 0 || made === BLOCKS) return free.pop();
    made += 1;
    return Buffer.allocUnsafeSlow(blockBytes);
  };
  let block = freeBlock();
  let used = 0;
  let offset = startsAt;
  let unchecked = checkStart;

  const write = async (
    full: Buffer,
    length: number,
    at: number,
    before: Promise<void> | undefined,
  ): Promise<void> => {
    await before;
    await writeAll(file, full, length, at);
    free.push(full);
    await onBlock(length);
  };
  const flush = (): void => {
    if (block === undefined || used === 0) return;
    const full = block.subarray(0, used);
    unchecked?.(full);
    unchecked = undefined;
    const writing = write(block, used, offset, underWay.at(-1));
    // The wait for this block throws the failure. Until then it must not count as an unhandled rejection.
    writing.catch(() => undefined);
    underWay.push(writing);
    hash?.update(full);
    offset += used;
    block = freeBlock();
    used = 0;
  };
  const nextBlock = async (): Promise<Buffer> => {
    for (;;) {
      const next = freeBlock();
      if (next !== undefined) return next;
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
      if (used === blockBytes || (unchecked !== undefined && used >= 4)) flush();
    }
  };
  return {
    push: (chunk) => {
      if (block !== undefined && unchecked === undefined && used + chunk.length < blockBytes) {
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

export async function writeAll(file: FileHandle, block: Buffer, length: number, at: number): Promise<void> {
  let from = 0;
  while (from < length) {
    const { bytesWritten } = await file.write(block, from, length - from, at + from);
    from += bytesWritten;
  }
}
