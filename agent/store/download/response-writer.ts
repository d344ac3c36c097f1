/** Streams a response to disk and through SHA-256 in one pass, in large blocks, with flat memory. */
import type { FileHandle } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { finished } from "node:stream";
import type { PrefixHash } from "../content/prefix-hash.ts";

export interface SinkOptions {
  readonly file: FileHandle;
  /** Where in the file the first byte of the response belongs. */
  readonly startsAt: number;
  /** Absent: the file is hashed elsewhere. */
  readonly hash?: PrefixHash | undefined;
  /** Given the first bytes of the file once there are four, or all there are; throws to refuse them. Absent when resuming. */
  readonly checkStart?: ((bytes: Uint8Array) => void) | undefined;
  /** How far in the file this response may be read, asked with how far it has been. The same offset ends it. Absent: to its end. */
  readonly limit?: ((offset: number) => number) | undefined;
  /** Counts bytes against the bandwidth of the host; a promise means: wait for it before reading on. */
  readonly pace?: ((bytes: number) => Promise<void> | undefined) | undefined;
  /** How much is hashed and written at a time; one connection has up to three such blocks. */
  readonly blockBytes?: number;
  /** Called with the size of each block that reached the file; throws to stop. */
  readonly onBlock: (bytes: number) => Promise<void> | void;
}

const BLOCK_BYTES = 512 << 10;
const BLOCKS = 3;

/**
 * Ends when the response or its limit ends; throws what the response or the disk throws, after everything that arrived
 * was written. Each block is hashed on this thread while the thread pool writes it; when all blocks are under way,
 * reading pauses.
 */
export async function writeResponse(response: IncomingMessage, options: SinkOptions): Promise<void> {
  const { startsAt, limit = () => Number.POSITIVE_INFINITY, pace } = options;
  const blocks = blockWriter(options);
  let offset = startsAt;
  freeSocketBuffers(response.socket);
  const take = (chunk: Buffer): Promise<void> | undefined => {
    const wanted = within(chunk, offset, limit);
    const { length } = wanted;
    offset += length;
    // A wait per chunk would cost more than the copy: only a full set of blocks waits.
    const full = blocks.push(wanted);
    if (full === undefined) {
      freeBuffer(chunk);
      return pace?.(length);
    }
    return full.then(() => {
      freeBuffer(chunk);
      return pace?.(length);
    });
  };
  try {
    await eachChunk(response, take, () => limit(offset) <= offset);
  } catch (error) {
    // What the disk throws goes first: the hash is ahead of the file then.
    await blocks.end();
    throw error;
  }
  await blocks.end();
}

/**
 * Hands over each chunk as it arrived: an iterator would join those that queue up into new buffers. While a promise of
 * `take` is pending, reading pauses. Resolves at the end of the response, or once `isOver`, which destroys it.
 */
function eachChunk(
  response: IncomingMessage,
  take: (chunk: Buffer) => Promise<void> | undefined,
  isOver: () => boolean,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let taken: Promise<void> = Promise.resolve();
  const settle = (error?: unknown): void => {
    forget();
    response.off("data", onData);
    if (!(error instanceof Error)) return void taken.then(resolve, reject);
    taken.then(drain).then(() => reject(error), reject);
  };
  /** Arrived while reading paused, and still to be had after the connection broke. */
  const drain = async (): Promise<void> => {
    for (let chunk = response.read(); chunk !== null; chunk = response.read()) await take(chunk);
  };
  const next = (): void => {
    if (!isOver()) return void response.resume();
    response.destroy();
    settle();
  };
  const onData = (chunk: Buffer): void => {
    const wait = take(chunk);
    if (wait === undefined) {
      if (isOver()) next();
      return;
    }
    response.pause();
    taken = wait.then(next);
    taken.catch(settle);
  };
  // Whoever destroys it later has its reasons; they are no longer of interest here.
  response.on("error", () => undefined);
  const forget = finished(response, { writable: false }, settle);
  response.on("data", onData);
  return promise;
}

/**
 * Each read of the socket has a buffer of its own, and so has each chunk that the parser copies out of it. Left to the
 * garbage collector they are 100 MB before it comes, in memory that is never in a cache.
 */
export function freeSocketBuffers(socket: Socket): void {
  let before: Buffer | undefined;
  // The parser is done with the read before: it came to this event before us.
  socket.on("data", (read: Buffer) => {
    if (before !== undefined) freeBuffer(before);
    before = read;
  });
}

/** Frees the memory of a buffer that nothing reads any more, if it is the only one in it. */
export function freeBuffer({ buffer, length }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0);
}

/** What may be read of a chunk that begins at `offset`: the limit is asked again where it ends in the chunk. */
function within(chunk: Buffer, offset: number, limit: (offset: number) => number): Buffer {
  let length = 0;
  for (let end = limit(offset); length < chunk.length && end > offset + length; end = limit(offset + length))
    length = Math.min(chunk.length, end - offset);
  return length === chunk.length ? chunk : chunk.subarray(0, length);
}

interface BlockWriter {
  /** Copies the chunk; a promise means: wait for it before the next push. */
  readonly push: (chunk: Buffer) => Promise<void> | undefined;
  readonly end: () => Promise<void>;
}

function blockWriter(options: SinkOptions): BlockWriter {
  const { file, startsAt, hash, checkStart, onBlock, blockBytes = BLOCK_BYTES } = options;
  const free: Buffer[] = [];
  const underWay: Promise<void>[] = [];
  let made = 0;
  /** Made when they are needed: where the disk is faster than the network, two are. */
  const spare = (): Buffer | undefined => {
    if (free.length > 0 || made === BLOCKS) return free.pop();
    made += 1;
    return Buffer.allocUnsafeSlow(blockBytes);
  };
  let block = spare();
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
    // The failure is thrown by the wait for this block; until then it must not count as unhandled.
    writing.catch(() => undefined);
    underWay.push(writing);
    hash?.update(full);
    offset += used;
    block = spare();
    used = 0;
  };
  const nextBlock = async (): Promise<Buffer> => {
    for (;;) {
      const next = spare();
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
