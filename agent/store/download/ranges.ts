/** Additional connections for a file whose first connection is slow: each fetches ranges of the file into the same part. */
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
  /** Hash of all bytes before `startsAt`. The first connection continues it. */
  readonly hash: PrefixHash;
  readonly startsAt: number;
  readonly totalBytes: number;
  readonly validator: Validator;
  /** Ends the first connection. */
  readonly endFirst: (reason: Error) => void;
  /** Records that the part may have holes after the contiguous bytes. Must run before such bytes are written. */
  readonly mark: (contiguousBytes: number) => Promise<void>;
  /** Counts bytes that were written to the file. */
  readonly onBlock: (bytes: number) => Promise<void>;
}

export interface Ranges {
  /** The offset up to which the first connection may read. */
  readonly limit: (offset: number) => number;
  /** Counts bytes of the first connection that were written to the file. */
  readonly wrote: (bytes: number) => void;
  /** False while there is only the first connection. */
  readonly isShared: () => boolean;
  /**
   * Fetches and hashes the remaining bytes after the first connection has stopped, possibly because of `failure`. On failure
   * the file is truncated to its contiguous bytes, which are all hashed. Throws SourceFailure, or the error of the disk.
   */
  readonly finish: (failure?: unknown) => Promise<void>;
  /** All bytes before this offset are in the file. */
  readonly contiguous: () => number;
}

/** Number of segments, per connection, that may be ahead of the contiguous bytes. */
const AHEAD = 1.5;
/** Maximum number of connections of one host. With many concurrent downloads, each has fewer connections. */
const MAX_CONNECTIONS = 16;
/** Block size of additional connections. It is smaller, because there are more of them and their blocks are not hashed. */
const BLOCK_BYTES = 128 << 10;
/** A connection stops after its ranges were taken over more often than this. */
const MAX_TAKEN_OVER = 2;

/** True if the server supports ranges and a range of another file version would be detected. */
export function canShare(
  { status, headers }: SourceResponse,
  { etag }: Validator,
  { sha256 }: StoreFile,
): boolean {
  const hasRanges = status === 206 || headers["accept-ranges"] === "bytes";
  return hasRanges && (sha256 !== undefined || (etag !== undefined && !etag.startsWith("W/")));
}

/** Opens no connection until the first one proves slow. */
export function createRanges(job: RangeJob): Ranges {
  const { clock } = job.context;
  const beganAt = clock.monotonicMs();
  let writtenTo = job.startsAt;
  let shared: Shared | undefined;
  return {
    limit: (offset) => {
      if (shared === undefined && !isWorthwhile(job, offset, clock.monotonicMs() - beganAt))
        return Number.POSITIVE_INFINITY;
      shared ??= share(job, { start: job.startsAt, at: writtenTo, end: offset });
      return shared.segments.extend(shared.first, offset);
    },
    wrote: (bytes) => {
      writtenTo += bytes;
      if (shared !== undefined) shared.first.at = writtenTo;
    },
    isShared: () => shared !== undefined,
    finish: async (failure) => {
      if (shared !== undefined) await finishShared(job, shared, failure);
    },
    contiguous: () => shared?.segments.contiguous() ?? writtenTo,
  };
}

/** The number of connections that this file may have now. */
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
  readonly segments: Segments;
  /** The segment of the first connection. */
  readonly first: Segment;
  /** Ends all other connections. */
  readonly stop: AbortController;
  readonly signal: AbortSignal;
  /** These promises never reject. */
  readonly connections: Promise<void>[];
  failure?: unknown;
}

function share(job: RangeJob, first: Segment): Shared {
  const { segmentBytes } = job.context.ranges;
  const connections = connectionsFor(job.context);
  const segments = createSegments(first, job.totalBytes, {
    segmentBytes,
    aheadBytes: AHEAD * connections * segmentBytes,
  });
  const stop = new AbortController();
  const signal = AbortSignal.any([job.context.signal, stop.signal]);
  signal.addEventListener("abort", segments.notify, { once: true });
  stop.signal.addEventListener("abort", () => job.endFirst(stop.signal.reason), { once: true });
  const shared: Shared = { segments, first, stop, signal, connections: [] };
  // The ranges of the additional connections begin after the segment that the first connection continues now.
  segments.extend(first, first.end);
  const marked = job.mark(first.at);
  for (let index = 1; index < connections; index += 1)
    shared.connections.push(
      marked.then(() => fetchRanges(job, shared)).catch((error: unknown) => noteFailure(shared, error)),
    );
  return shared;
}

/** After a failure of the source, the other connections fetch the range. Any other failure ends all connections. */
function noteFailure(shared: Shared, error: unknown): void {
  shared.failure = error;
  if (!(error instanceof SourceFailure)) shared.stop.abort(error);
}

async function fetchRanges(job: RangeJob, { segments, signal }: Shared): Promise<void> {
  for (let takenOver = 0; takenOver <= MAX_TAKEN_OVER; ) {
    signal.throwIfAborted();
    const change = segments.change();
    const segment = segments.take();
    if (segment === "done") return;
    if (segment === "wait") {
      await change;
      continue;
    }
    const own = new AbortController();
    segment.takeOver = () => own.abort();
    try {
      await fetchRange(job, segment, AbortSignal.any([signal, own.signal]), own.signal);
      segments.finish(segment);
    } catch (error) {
      if (own.signal.aborted) takenOver += 1;
      else {
        segments.release(segment);
        throw bodyFailure(error, `${job.file.name} broke off at ${segment.at} of ${job.totalBytes} bytes`);
      }
    }
  }
}

/** Once `takenOver` is aborted, another connection fetches the remaining bytes. */
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

/** Throws OtherVersion, or SourceFailure for a response without the range. */
function checkRange(answer: SourceResponse, segment: Segment, { validator, totalBytes }: RangeJob): void {
  const { url, status, headers } = answer;
  const { etag } = validatorOf(headers);
  const total = totalBytesOf(answer);
  const isOtherVersion =
    (etag !== undefined && validator.etag !== undefined && etag !== validator.etag) ||
    (total !== undefined && total !== totalBytes);
  if (status !== 200 && status !== 206) throw statusFailure(url, status, headers["retry-after"]);
  if (isOtherVersion) throw new OtherVersion(url);
  const range = `bytes ${segment.at}-${segment.end - 1}/`;
  if (status === 200 || headers["content-range"]?.startsWith(range) !== true)
    throw transient("SourceRefused", `${plainUrl(url)} did not answer with the requested range`);
}

/** The file changed during its download, so the part has bytes of the previous version. */
class OtherVersion extends Error {
  readonly failure: SourceFailure;
  constructor(url: URL) {
    super("the file changed");
    this.failure = transient("SourceChanged", `${plainUrl(url)} changed during the download`);
  }
}

async function finishShared(job: RangeJob, shared: Shared, failure: unknown): Promise<void> {
  const { segments, first, connections, stop } = shared;
  const hashedTo = first.at;
  if (failure === undefined && first.at === first.end) {
    segments.finish(first);
    connections.push(fetchRanges(job, shared).catch((error: unknown) => noteFailure(shared, error)));
  } else {
    segments.release(first);
    noteFailure(
      shared,
      failure ?? transient("SourceTruncated", `${job.file.name} ended before its last byte`),
    );
    // If the first bytes were refused, the other ranges are useless.
    if (failure instanceof SourceFailure && !failure.isTransient) stop.abort(failure);
  }
  let isFinished = false;
  const finished = Promise.all(connections).then(() => {
    isFinished = true;
    segments.notify();
  });
  await hashContiguous(job, segments, hashedTo, () => isFinished).catch((error: unknown) =>
    noteFailure(shared, error),
  );
  await finished;
  const { reason } = stop.signal;
  if (segments.contiguous() === job.totalBytes && reason === undefined) return;
  await job.handle.truncate(segments.contiguous());
  throw reason instanceof OtherVersion ? reason.failure : (reason ?? shared.failure);
}

/** Hashes bytes as they become contiguous by reading them back from the page cache. */
async function hashContiguous(
  { context, handle, hash, mark, totalBytes }: RangeJob,
  segments: Segments,
  from: number,
  isFinished: () => boolean,
): Promise<void> {
  const { ranges, signal } = context;
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  let hashedTo = from;
  let markedAt = from;
  for (;;) {
    const change = segments.change();
    const isLast = isFinished();
    hashedTo = await hashRange(handle, hash, { from: hashedTo, to: segments.contiguous() }, signal, buffer);
    context.onStored?.({ hash, bytes: hashedTo, totalBytes });
    if (isLast || hashedTo - markedAt >= ranges.segmentBytes) {
      await mark(hashedTo);
      markedAt = hashedTo;
    }
    if (isLast) return;
    await change;
  }
}
