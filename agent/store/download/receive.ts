/** Requests the missing bytes of a part and appends the response, with additional connections if the first is slow. */
import type { SourceResponse } from "../../../src/hub/client.ts";
import { mayBeOfRange, permanent, plainUrl, SourceFailure, transient } from "../../../src/hub/failure.ts";
import { PrefixHash } from "../content/prefix-hash.ts";
import { type Body, bodyFailure, classifyBody, firstBytesCheck, rangeHeaders } from "./body.ts";
import type { DownloadContext, Received, StoreFile } from "./context.ts";
import { type DownloadPart, type OpenPart, openPart, truncateIfDiskFull, writeMeta } from "./part.ts";
import { canShare, createRanges, type Ranges } from "./ranges.ts";
import { writeResponse } from "./response-writer.ts";

/** The free disk space is checked again after this many bytes. */
export const ADMIT_EVERY_BYTES = 64 << 20;

/** Completes the part without syncing it. Throws SourceFailure for the server or network, and MetalbridgeError for the disk. */
export async function receiveFile(
  file: StoreFile,
  part: DownloadPart,
  context: DownloadContext,
): Promise<Received> {
  const opened = await openPart(part, file, context);
  try {
    const { sizeBytes, validator } = opened;
    const headers: Record<string, string> =
      sizeBytes === 0 ? {} : rangeHeaders(`${sizeBytes}-`, validator, file.sha256 !== undefined);
    const answer = await context.source.open(file.url, { headers, signal: context.signal });
    try {
      const received = await receiveAnswer({ answer, opened, file, part, context });
      return headers.range === undefined ? received : { ...received, isOneResponse: false };
    } catch (error) {
      if (headers.range === undefined || !mayBeOfRange(error)) throw error;
      await opened.file.truncate(0);
      throw transient(error.error.code, error.message, error);
    } finally {
      answer.body.destroy();
    }
  } catch (error) {
    throw await truncateIfDiskFull(error, opened, part, file);
  } finally {
    await opened.file.close();
  }
}

interface Reception {
  readonly answer: SourceResponse;
  readonly opened: OpenPart;
  readonly file: StoreFile;
  readonly part: DownloadPart;
  readonly context: DownloadContext;
}

type Bytes = Extract<Body, { at: "bytes" }>;

async function receiveAnswer(reception: Reception): Promise<Received> {
  const { answer, opened, file, part, context } = reception;
  const body = classifyBody(answer, opened);
  if (body.at === "complete") {
    const { hash, sizeBytes, validator } = opened;
    remember(part, hash, sizeBytes);
    return { sizeBytes, validator, isOneResponse: false };
  }
  if (body.at === "useless") {
    await opened.file.truncate(0);
    throw transient("SourceTruncated", `${plainUrl(answer.url)} did not answer with the requested range`);
  }
  if (body.totalBytes === 0) throw permanent("SourceEmpty", `${plainUrl(answer.url)} has zero bytes`);
  if (body.startsAt > 0) return receiveBytes(reception, body);
  await opened.file.truncate(0);
  await writeMeta(part, { url: plainUrl(file.url), boot: context.boot, validator: body.validator });
  return receiveBytes({ ...reception, opened: { ...opened, hash: new PrefixHash(), sizeBytes: 0 } }, body);
}

async function receiveBytes(reception: Reception, body: Bytes): Promise<Received> {
  const { opened, file, part, context } = reception;
  const { startsAt, totalBytes, validator } = body;
  if (totalBytes !== undefined) await context.admit(totalBytes - startsAt);
  context.onProgress(startsAt, totalBytes);
  context.onStored?.({ hash: opened.hash, bytes: startsAt, totalBytes });
  const onBlock = countBlocks(body, context);
  const ranges = additionalRanges(reception, body, onBlock);
  let written = startsAt;
  const contiguous = (): number => ranges?.contiguous() ?? written;
  const wrote = (bytes: number): Promise<void> => {
    written += bytes;
    ranges?.wrote(bytes);
    context.onStored?.({ hash: opened.hash, bytes: contiguous(), totalBytes });
    return onBlock(bytes);
  };
  try {
    await writeBody(reception, body, ranges, wrote).then(
      () => ranges?.finish(),
      (error: unknown) => {
        const failure = bodyFailure(error, brokeOff(file, written, totalBytes));
        if (ranges?.isShared() !== true) throw failure;
        return ranges.finish(failure);
      },
    );
  } catch (failure) {
    if (failure instanceof SourceFailure) {
      failure.gainedBytes = contiguous() - startsAt;
      // The bytes are useless only if they are not a model. Other failures concern the connection.
      if (failure.error.code === "SourceIsNotAModel") await opened.file.truncate(0);
    }
    throw failure;
  } finally {
    remember(part, opened.hash, contiguous());
  }
  part.isShared = ranges?.isShared() === true;
  const sizeBytes = contiguous();
  if (sizeBytes === 0) throw permanent("SourceEmpty", `${file.name} has zero bytes`);
  if (totalBytes !== undefined && sizeBytes !== totalBytes)
    throw transient("SourceTruncated", brokeOff(file, sizeBytes, totalBytes));
  return { sizeBytes, validator, isOneResponse: startsAt === 0 && !part.isShared };
}

/** Undefined if the file cannot be fetched in ranges. */
function additionalRanges(
  { answer, opened, file, part, context }: Reception,
  { startsAt, totalBytes, validator }: Bytes,
  onBlock: (bytes: number) => Promise<void>,
): Ranges | undefined {
  if (totalBytes === undefined || part.isShared === true || !canShare(answer, validator, file))
    return undefined;
  const meta = { url: plainUrl(file.url), boot: context.boot, validator };
  return createRanges({
    file,
    context,
    handle: opened.file,
    hash: opened.hash,
    startsAt,
    totalBytes,
    validator,
    endFirst: (reason) => void answer.body.destroy(reason),
    mark: (contiguousBytes) => writeMeta(part, { ...meta, contiguousBytes }),
    onBlock,
  });
}

function writeBody(
  { answer, opened, file, context }: Reception,
  { startsAt, totalBytes = Number.POSITIVE_INFINITY }: Bytes,
  ranges: Ranges | undefined,
  onBlock: (bytes: number) => Promise<void>,
): Promise<void> {
  return writeResponse(answer.body, {
    file: opened.file,
    hash: opened.hash,
    startsAt,
    // A server may send more bytes than it announces.
    limit: (offset) => Math.min(ranges?.limit(offset) ?? totalBytes, totalBytes),
    checkStart: startsAt > 0 ? undefined : firstBytesCheck(file, answer.headers["content-type"]),
    pace: (bytes) => context.pace?.(bytes, context.signal),
    onBlock,
  });
}

/** Saves the hash state for the next attempt. */
function remember(part: DownloadPart, hash: PrefixHash, hashedBytes: number): void {
  part.hash = hash;
  part.hashedBytes = hashedBytes;
}

/** Counts the bytes that all connections write to the file, and checks the free disk space periodically. */
export function countBlocks(
  { startsAt, totalBytes }: Pick<Bytes, "startsAt" | "totalBytes">,
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
