/** One attempt at a file: requests what is missing, appends it, and checks that it is whole. */
import { dirname } from "node:path";
import type { SourceResponse } from "../../../src/hub/client.ts";
import { permanent, plainUrl, SourceFailure, transient } from "../../../src/hub/failure.ts";
import type { Validator } from "../../../src/hub/validator.ts";
import { systemCode } from "../../../src/util/atomic-file.ts";
import { diskFull, readDiskSpace } from "../disk.ts";
import { type Body, bodyFailure, planBody, resumeHeaders } from "./body.ts";
import type { DownloadContext, StoreFile } from "./download-context.ts";
import { firstBytesCheck } from "./first-bytes.ts";
import { type DownloadPart, type OpenPart, openPart, type PartMemory, writeMeta } from "./part.ts";
import { PrefixHash } from "./prefix-hash.ts";
import { canShare, createRanges } from "./ranges.ts";
import { writeResponse } from "./response-writer.ts";

/** Bytes of its part that a download frees after it filled the disk. */
const GIVE_BACK_BYTES = 64 << 20;

interface Attempt extends DownloadContext {
  readonly remember: (hash: PrefixHash, sizeBytes: number) => void;
  readonly memory: PartMemory;
}

export interface ReceivedFile {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly validator: Validator;
  /** Of the bytes, for other hosts that fetch them from this one. */
  readonly prefixes: readonly string[];
}

/** Free space is checked again after this many bytes. */
const ADMIT_EVERY_BYTES = 64 << 20;

/** Throws SourceFailure for failures of server or network, MetalbridgeError for those of the disk. */
export async function receiveFile(
  file: StoreFile,
  part: DownloadPart,
  context: DownloadContext,
  memory: PartMemory,
): Promise<ReceivedFile> {
  const hasChecksum = file.sha256 !== undefined;
  const trust = { url: plainUrl(file.url), boot: context.boot, hasChecksum };
  const opened = await openPart(part, trust, { memory, signal: context.signal });
  const remember = (hash: PrefixHash, sizeBytes: number): void => {
    memory.hash = hash;
    memory.sizeBytes = sizeBytes;
  };
  try {
    return await continueFrom(opened, file, part, { ...context, remember, memory });
  } catch (error) {
    throw await truncateIfDiskFull(error, opened, part, file);
  } finally {
    await opened.file.close();
  }
}

/** With the disk at zero nothing else on this machine can write: gives some back, and keeps the rest for the next attempt. */
export async function truncateIfDiskFull(
  error: unknown,
  { file }: OpenPart,
  part: DownloadPart,
  { name }: Pick<StoreFile, "name">,
): Promise<unknown> {
  if (systemCode(error) !== "ENOSPC" && systemCode(error) !== "EDQUOT") return error;
  const { freeBytes } = await readDiskSpace(dirname(part.path));
  const { size } = await file.stat();
  await file.truncate(Math.max(0, size - GIVE_BACK_BYTES));
  return diskFull({ what: name, freeBytes, reserveBytes: 0, cause: error });
}

async function continueFrom(
  opened: OpenPart,
  file: StoreFile,
  part: DownloadPart,
  context: Attempt,
): Promise<ReceivedFile> {
  const headers = resumeHeaders(opened, file.sha256 !== undefined);
  const answer = await context.source.open(file.url, { headers, signal: context.signal });
  try {
    const body = planBody(answer, opened);
    if (body.at === "useless") {
      await opened.file.truncate(0);
      throw transient(
        "SourceTruncated",
        `${plainUrl(answer.url)} answered with a range that was not requested`,
      );
    }
    if (body.at === "complete") return await finish(opened, file, opened, opened.sizeBytes, context.memory);
    if (body.totalBytes === 0) throw permanent("SourceEmpty", `${plainUrl(answer.url)} has zero bytes`);
    if (body.startsAt > 0) return await receiveBody(answer, body, opened, { file, part }, context);
    await opened.file.truncate(0);
    await writeMeta(part, { url: plainUrl(file.url), boot: context.boot, validator: body.validator });
    const fresh: OpenPart = { ...opened, hash: new PrefixHash(), sizeBytes: 0 };
    return await receiveBody(answer, body, fresh, { file, part }, context);
  } finally {
    answer.body.destroy();
  }
}

async function receiveBody(
  answer: SourceResponse,
  body: Extract<Body, { at: "bytes" }>,
  opened: OpenPart,
  target: { readonly file: StoreFile; readonly part: DownloadPart },
  context: Attempt,
): Promise<ReceivedFile> {
  const { file, part } = target;
  const { startsAt, totalBytes, validator } = body;
  if (totalBytes !== undefined) await context.admit(totalBytes - startsAt);
  context.onProgress(startsAt, totalBytes);
  context.onStored?.({ hash: opened.hash, bytes: startsAt, totalBytes });
  const onBlock = countBlocks(body, context);
  const meta = { url: plainUrl(file.url), boot: context.boot, validator };
  const ranges =
    totalBytes !== undefined && context.memory.isSuspect !== true && canShare(answer, validator, file)
      ? createRanges({
          ...{
            file,
            context,
            handle: opened.file,
            hash: opened.hash,
            startsAt,
            totalBytes,
            validator,
            onBlock,
          },
          endFirst: (reason) => void answer.body.destroy(reason),
          mark: (contiguousBytes) => writeMeta(part, { ...meta, contiguousBytes }),
        })
      : undefined;
  const end = totalBytes ?? Number.POSITIVE_INFINITY;
  let written = 0;
  try {
    const ended = writeResponse(answer.body, {
      file: opened.file,
      hash: opened.hash,
      startsAt,
      // A range may come with more bytes than it announces.
      limit: (offset) => Math.min(ranges?.limit(offset) ?? end, end),
      checkStart: startsAt > 0 ? undefined : firstBytesCheck(file, answer.headers["content-type"]),
      pace: (bytes) => context.pace?.(bytes, context.signal),
      onBlock: (bytes) => {
        written += bytes;
        ranges?.wrote(bytes);
        context.onStored?.({
          hash: opened.hash,
          bytes: ranges?.contiguous() ?? startsAt + written,
          totalBytes,
        });
        return onBlock(bytes);
      },
    });
    await ended.then(
      () => ranges?.rest(),
      (error: unknown) => {
        const failure = bodyFailure(error, brokeOff(file, startsAt + written, totalBytes));
        if (ranges?.isShared() !== true) throw failure;
        return ranges.rest(failure);
      },
    );
  } catch (failure) {
    const contiguous = ranges?.contiguous() ?? startsAt + written;
    if (failure instanceof SourceFailure) failure.gainedBytes = contiguous - startsAt;
    // What a connection refuses says nothing of the bytes that are there; what they are does.
    if (failure instanceof SourceFailure && failure.error.code === "SourceIsNotAModel")
      await opened.file.truncate(0);
    context.remember(opened.hash, contiguous);
    throw failure;
  }
  context.memory.isSuspect = ranges?.isShared() === true;
  return finish(opened, file, body, ranges?.contiguous() ?? startsAt + written, context.memory);
}

/** Counts what reaches the file, from whichever connection, and checks the disk now and then. */
export function countBlocks(
  { startsAt, totalBytes }: Pick<Extract<Body, { at: "bytes" }>, "startsAt" | "totalBytes">,
  context: Pick<DownloadContext, "onReceived" | "onProgress" | "admit">,
): (bytes: number) => Promise<void> {
  let received = 0;
  let admitAt = ADMIT_EVERY_BYTES;
  return async (bytes) => {
    received += bytes;
    context.onReceived?.(bytes);
    context.onProgress(startsAt + received, totalBytes);
    if (received < admitAt) return;
    admitAt = received + ADMIT_EVERY_BYTES;
    await context.admit(totalBytes === undefined ? 0 : totalBytes - startsAt - received);
  };
}

function brokeOff({ name }: StoreFile, atBytes: number, totalBytes: number | undefined): string {
  return `${name} broke off after ${atBytes} of ${totalBytes ?? "?"} bytes`;
}

async function finish(
  opened: OpenPart,
  file: StoreFile,
  body: {
    readonly validator: Validator;
    readonly totalBytes?: number | undefined;
    readonly startsAt?: number;
  },
  sizeBytes: number,
  memory: PartMemory,
): Promise<ReceivedFile> {
  if (sizeBytes === 0) throw permanent("SourceEmpty", `${file.name} has zero bytes`);
  if (body.totalBytes !== undefined && sizeBytes !== body.totalBytes) {
    throw transient("SourceTruncated", brokeOff(file, sizeBytes, body.totalBytes));
  }
  await opened.file.datasync();
  const sha256 = opened.hash.digest();
  if (file.sha256 !== undefined && file.sha256.toLowerCase() !== sha256) {
    const message = `${file.name} has sha256 ${sha256}, expected ${file.sha256.toLowerCase()}`;
    // One complete response is what the server has; a file assembled from several may be a mixture.
    if (body.startsAt === 0 && memory.isSuspect !== true) throw permanent("ChecksumMismatch", message);
    await opened.file.truncate(0);
    throw transient("ChecksumMismatch", message);
  }
  return { sha256, sizeBytes, validator: body.validator, prefixes: opened.hash.prefixes };
}
