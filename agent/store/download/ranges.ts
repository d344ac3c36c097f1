/** Further connections for a file whose first one is slow: each fetches ranges of it into the same part. */
import type { FileHandle } from "node:fs/promises";
import type { SourceResponse } from "../../../src/hub/client.ts";
import { plainUrl, SourceFailure, statusFailure, transient } from "../../../src/hub/failure.ts";
import { totalBytesOf, type Validator, validatorOf } from "../../../src/hub/validator.ts";
import type { PrefixHash } from "../content/prefix-hash.ts";
import { bodyFailure, rangeHeaders } from "./body.ts";
import type { DownloadContext, StoreFile } from "./context.ts";
import { hashRange, READ_BYTES } from "./part.ts";
import { writeResponse } from "./response-writer.ts";
import { createSegments, type Segment, type Segments } from "./segments.ts";

export interface RangeJob {
  readonly file: StoreFile;
  readonly context: DownloadContext;
  readonly handle: FileHandle;
  /** Of everything before the first connection, which continues it. */
  readonly hash: PrefixHash;
  readonly startsAt: number;
  readonly totalBytes: number;
  readonly validator: Validator;
  /** Ends the first connection. */
  readonly endFirst: (reason: Error) => void;
  /** Records that bytes behind the contiguous ones may be in the part, before any is. */
  readonly mark: (contiguousBytes: number) => Promise<void>;
  /** Counts bytes that reached the file. */
  readonly onBlock: (bytes: number) => Promise<void>;
}

export interface Ranges {
  /** For the sink of the first connection. */
  readonly limit: (offset: number) => number;
  /** Bytes of the first connection that reached the file. */
  readonly wrote: (bytes: number) => void;
  /** False as long as there is only the first connection. */
  readonly isShared: () => boolean;
  /**
   * Once the first connection has stopped, by `failure` if one is given: fetches the rest and hashes it. On failure
   * the file is left with its contiguous bytes, all of them hashed. Throws SourceFailure and what the disk throws.
   */
  readonly rest: (failure?: unknown) => Promise<void>;
  /** Everything before this offset is in the file. */
  readonly contiguous: () => number;
}

/** Segments that may be under way or waiting for an earlier one, for each connection. */
const AHEAD = 1.5;
/** Of one host: where many files are downloaded at once, each has fewer. */
const MAX_CONNECTIONS = 16;
/** Of the connections beside the first: there are more of them, and the blocks are not hashed. */
const BLOCK_BYTES = 128 << 10;
/** A connection whose ranges were taken over so often is of no use. */
const MAX_TAKEN_OVER = 2;

/** Whether the server sends ranges, and one of another version of the file would be noticed. */
export function canShare(
  { status, headers }: SourceResponse,
  { etag }: Validator,
  { sha256 }: StoreFile,
): boolean {
  const hasRanges = status === 206 || headers["accept-ranges"] === "bytes";
  return hasRanges && (sha256 !== undefined || (etag !== undefined && !etag.startsWith("W/")));
}

/** Sends nothing before the first connection proves slow. */
export function createRanges(job: RangeJob): Ranges {
  const { clock } = job.context;
  const beganAt = clock.monotonicMs();
  let writtenTo = job.startsAt;
  let shared: Shared | undefined;
  return {
    limit: (offset) => {
      if (shared !== undefined) return shared.book.extend(shared.first, offset);
      if (!isWorthwhile(job, offset, clock.monotonicMs() - beganAt)) return Number.POSITIVE_INFINITY;
      shared = share(job, { start: job.startsAt, at: writtenTo, end: offset });
      return shared.book.extend(shared.first, offset);
    },
    wrote: (bytes) => {
      writtenTo += bytes;
      if (shared !== undefined) shared.first.at = writtenTo;
    },
    isShared: () => shared !== undefined,
    rest: async (failure) => {
      if (shared !== undefined) await finishShared(job, shared, failure);
    },
    contiguous: () => shared?.book.contiguous() ?? writtenTo,
  };
}

/** How many this file may have now. */
function connectionsFor({ ranges, queue }: DownloadContext): number {
  return Math.min(ranges.connections, Math.floor(MAX_CONNECTIONS / Math.max(1, queue.running())));
}

function isWorthwhile({ startsAt, totalBytes, context }: RangeJob, offset: number, ranMs: number): boolean {
  const { segmentBytes, shareAboveMs } = context.ranges;
  const left = totalBytes - offset;
  if (connectionsFor(context) < 2 || left < 2 * segmentBytes || ranMs < shareAboveMs / 10) return false;
  return (ranMs * left) / (offset - startsAt) >= shareAboveMs;
}

interface Shared {
  readonly book: Segments;
  /** Of the first connection. */
  readonly first: Segment;
  /** Ends all other connections. */
  readonly stop: AbortController;
  readonly signal: AbortSignal;
  /** None of them rejects. */
  readonly connections: Promise<void>[];
  failure?: unknown;
}

function share(job: RangeJob, first: Segment): Shared {
  const { segmentBytes } = job.context.ranges;
  const connections = connectionsFor(job.context);
  const book = createSegments(first, job.totalBytes, {
    segmentBytes,
    aheadBytes: AHEAD * connections * segmentBytes,
  });
  const stop = new AbortController();
  const signal = AbortSignal.any([job.context.signal, stop.signal]);
  signal.addEventListener("abort", book.notify, { once: true });
  stop.signal.addEventListener("abort", () => job.endFirst(stop.signal.reason), { once: true });
  const shared: Shared = { book, first, stop, signal, connections: [] };
  // Their ranges begin behind what the first connection takes on now.
  book.extend(first, first.end);
  const marked = job.mark(first.at);
  for (let index = 1; index < connections; index += 1)
    shared.connections.push(
      marked.then(() => fetchRanges(job, shared)).catch((error: unknown) => note(shared, error)),
    );
  return shared;
}

/** A connection that the server refuses or breaks off leaves its range to the others; anything else ends all of them. */
function note(shared: Shared, error: unknown): void {
  shared.failure = error;
  if (!(error instanceof SourceFailure)) shared.stop.abort(error);
}

async function fetchRanges(job: RangeJob, { book, signal }: Shared): Promise<void> {
  for (let takenOver = 0; takenOver <= MAX_TAKEN_OVER; ) {
    signal.throwIfAborted();
    const change = book.change();
    const segment = book.take();
    if (segment === "done") return;
    if (segment === "wait") {
      await change;
      continue;
    }
    const own = new AbortController();
    segment.takeOver = () => own.abort();
    try {
      await fetchRange(job, segment, AbortSignal.any([signal, own.signal]), own.signal);
      book.finish(segment);
    } catch (error) {
      if (own.signal.aborted) takenOver += 1;
      else {
        book.giveBack(segment);
        throw bodyFailure(error, `${job.file.name} broke off at ${segment.at} of ${job.totalBytes} bytes`);
      }
    }
  }
}

/** `takenOver`: what arrives after that is another connection's. */
async function fetchRange(
  job: RangeJob,
  segment: Segment,
  signal: AbortSignal,
  takenOver: AbortSignal,
): Promise<void> {
  const { file, context, handle, validator, onBlock } = job;
  const headers = rangeHeaders(`${segment.at}-${segment.end - 1}`, validator, true);
  const answer = await context.source.open(file.url, { headers, signal });
  try {
    checkRange(answer, segment, job);
    await writeResponse(answer.body, {
      file: handle,
      startsAt: segment.at,
      blockBytes: BLOCK_BYTES,
      pace: (bytes) => context.pace?.(bytes, signal),
      limit: () => segment.end,
      onBlock: async (bytes) => {
        if (takenOver.aborted) return;
        segment.at += bytes;
        await onBlock(bytes);
      },
    });
  } finally {
    answer.body.destroy();
  }
  if (segment.at < segment.end)
    throw transient("SourceTruncated", `${plainUrl(answer.url)} ended a range before its last byte`);
}

/** Throws OtherVersion, or SourceFailure for an answer without the range. */
function checkRange(answer: SourceResponse, segment: Segment, { validator, totalBytes }: RangeJob): void {
  const { url, status, headers } = answer;
  const { etag } = validatorOf(headers);
  const total = totalBytesOf(answer);
  const isOther =
    (etag !== undefined && validator.etag !== undefined && etag !== validator.etag) ||
    (total !== undefined && total !== totalBytes);
  if ((status === 200 || status === 206) && isOther) throw new OtherVersion(url);
  if (status !== 200 && status !== 206) throw statusFailure(url, status, headers["retry-after"]);
  const isAsked = headers["content-range"]?.startsWith(`bytes ${segment.at}-${segment.end - 1}/`) === true;
  if (status === 200 || !isAsked)
    throw transient("SourceRefused", `${plainUrl(url)} did not answer with the range that was requested`);
}

/** The file changed during its download: what is in the part is of the version before. */
class OtherVersion extends Error {
  readonly failure: SourceFailure;
  constructor(url: URL) {
    super("the file changed");
    this.failure = transient("SourceChanged", `${plainUrl(url)} changed during the download`);
  }
}

async function finishShared(job: RangeJob, shared: Shared, failure: unknown): Promise<void> {
  const { book, first, connections, stop } = shared;
  const hashedTo = first.at;
  if (failure === undefined && first.at === first.end) {
    book.finish(first);
    connections.push(fetchRanges(job, shared).catch((error: unknown) => note(shared, error)));
  } else {
    book.giveBack(first);
    note(shared, failure ?? transient("SourceTruncated", `${job.file.name} ended before its last byte`));
    // Its first bytes were refused: nothing else of it is wanted.
    if (failure instanceof SourceFailure && !failure.isTransient) stop.abort(failure);
  }
  let isOver = false;
  const over = Promise.all(connections).then(() => {
    isOver = true;
    book.notify();
  });
  await hashBehind(job, book, hashedTo, () => isOver).catch((error: unknown) => note(shared, error));
  await over;
  const { reason } = stop.signal;
  if (book.contiguous() === job.totalBytes && reason === undefined) return;
  await job.handle.truncate(book.contiguous());
  throw reason instanceof OtherVersion ? reason.failure : (reason ?? shared.failure);
}

/** Hashes what has become contiguous, by reading it back: it is still in the page cache. */
async function hashBehind(
  { context, handle, hash, mark, totalBytes }: RangeJob,
  book: Segments,
  from: number,
  isOver: () => boolean,
): Promise<void> {
  const { ranges, signal } = context;
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  let hashedTo = from;
  let markedAt = from;
  for (;;) {
    const change = book.change();
    const isLast = isOver();
    hashedTo = await hashRange(handle, hash, { from: hashedTo, to: book.contiguous() }, signal, buffer);
    context.onStored?.({ hash, bytes: hashedTo, totalBytes });
    if (isLast || hashedTo - markedAt >= ranges.segmentBytes) {
      await mark(hashedTo);
      markedAt = hashedTo;
    }
    if (isLast) return;
    await change;
  }
}
