/** One attempt at a file: asks for what is missing, appends it, and checks that it is whole. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { dirname } from "node:path";
import { MetalbridgeError } from "../../../src/errors.ts";
import { systemCode } from "../atomic.ts";
import { diskFull, readDiskSpace } from "../disk.ts";
import { type Body, planBody, resumeHeaders } from "./body.ts";
import type { DownloadContext, RemoteFile } from "./download-context.ts";
import { AttemptFailure, lasting, passing, plainUrl } from "./failure.ts";
import { firstBytesCheck } from "./first-bytes.ts";
import { type OpenPart, openPart, type Part, type Validator, writeMeta } from "./part.ts";
import { exchange } from "./request.ts";
import { sink } from "./sink.ts";
import { watchForStall } from "./stall.ts";

export interface Received {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly validator: Validator;
}

/** Free space is looked at again after this many bytes. */
const ADMIT_EVERY_BYTES = 64 << 20;

/** Throws AttemptFailure for what the server or network did, MetalbridgeError for the disk. */
export async function receive(file: RemoteFile, part: Part, context: DownloadContext): Promise<Received> {
  const hasChecksum = file.sha256 !== undefined;
  const opened = await openPart(part, { url: plainUrl(file.url), boot: context.boot, hasChecksum });
  try {
    return await continueFrom(opened, file, part, context);
  } catch (error) {
    if (systemCode(error) !== "ENOSPC" && systemCode(error) !== "EDQUOT") throw error;
    // With the disk at zero nothing else on this machine can write: give back what we took.
    const { freeBytes } = await readDiskSpace(dirname(part.path));
    await opened.file.truncate(0);
    throw diskFull({ what: file.name, freeBytes, reserveBytes: 0, cause: error });
  } finally {
    await opened.file.close();
  }
}

async function continueFrom(
  opened: OpenPart,
  file: RemoteFile,
  part: Part,
  context: DownloadContext,
): Promise<Received> {
  const headers = resumeHeaders(opened, file.sha256 !== undefined);
  const { secretHeaders, signal, rules } = context;
  const answer = await exchange(file.url, { method: "GET", headers, secretHeaders, signal }, rules);
  try {
    const body = planBody(answer, opened);
    if (body.at === "useless") {
      await opened.file.truncate(0);
      throw passing(
        "SourceTruncated",
        `${plainUrl(answer.url)} answered with another range than was asked for`,
      );
    }
    if (body.at === "complete") return await finish(opened, file, opened, opened.sizeBytes);
    if (body.totalBytes === 0) throw lasting("SourceEmpty", `${plainUrl(answer.url)} has zero bytes`);
    if (body.startsAt > 0) return await receiveBody(answer.response, body, opened, file, context);
    await opened.file.truncate(0);
    await writeMeta(part, { url: plainUrl(file.url), boot: context.boot, validator: body.validator });
    const fresh: OpenPart = { ...opened, hash: createHash("sha256"), sizeBytes: 0 };
    return await receiveBody(answer.response, body, fresh, file, context);
  } finally {
    answer.response.destroy();
  }
}

async function receiveBody(
  response: IncomingMessage,
  body: Extract<Body, { at: "bytes" }>,
  opened: OpenPart,
  file: RemoteFile,
  context: DownloadContext,
): Promise<Received> {
  const { startsAt, totalBytes } = body;
  let written = 0;
  let admitAt = ADMIT_EVERY_BYTES;
  if (totalBytes !== undefined) await context.admit(totalBytes - startsAt);
  context.onProgress(startsAt, totalBytes);
  const watch = watchForStall(response, context.clock, context.rules.stallMs);
  try {
    await sink(response, {
      file: opened.file,
      hash: opened.hash,
      checkStart: startsAt > 0 ? undefined : firstBytesCheck(file, response.headers["content-type"]),
      onBlock: async (bytes) => {
        context.onReceived?.(bytes - written);
        written = bytes;
        context.onProgress(startsAt + bytes, totalBytes);
        if (bytes < admitAt) return;
        admitAt = bytes + ADMIT_EVERY_BYTES;
        await context.admit(totalBytes === undefined ? 0 : totalBytes - startsAt - bytes);
      },
    });
  } catch (error) {
    const failure = bodyFailure(
      error,
      watch.isStalled(),
      `${file.name} ended after ${startsAt + written} of ${totalBytes ?? "?"} bytes`,
    );
    if (failure instanceof AttemptFailure && !failure.canPass) await opened.file.truncate(0);
    if (failure instanceof AttemptFailure) failure.gainedBytes = written;
    throw failure;
  } finally {
    watch.stop();
  }
  return finish(opened, file, body, startsAt + written);
}

function bodyFailure(error: unknown, isStalled: boolean, message: string): unknown {
  if (isStalled) return passing("SourceStalled", `${message}: no byte came any more`, error);
  if (error instanceof AttemptFailure || error instanceof MetalbridgeError) return error;
  const code = systemCode(error);
  const isNetwork =
    code === "ECONNRESET" || code === "EPIPE" || code === "ETIMEDOUT" || code?.startsWith("HPE_") === true;
  return isNetwork ? passing("SourceTruncated", message, error) : error;
}

async function finish(
  opened: OpenPart,
  file: RemoteFile,
  body: {
    readonly validator: Validator;
    readonly totalBytes?: number | undefined;
    readonly startsAt?: number;
  },
  sizeBytes: number,
): Promise<Received> {
  if (sizeBytes === 0) throw lasting("SourceEmpty", `${file.name} has zero bytes`);
  if (body.totalBytes !== undefined && sizeBytes !== body.totalBytes) {
    throw passing("SourceTruncated", `${file.name} ended after ${sizeBytes} of ${body.totalBytes} bytes`);
  }
  await opened.file.datasync();
  const sha256 = opened.hash.digest("hex");
  if (file.sha256 !== undefined && file.sha256.toLowerCase() !== sha256) {
    await opened.file.truncate(0);
    const message = `${file.name} has sha256 ${sha256}, expected ${file.sha256.toLowerCase()}`;
    // Put together from two answers it may be a mixture; one whole answer is what the server has.
    throw body.startsAt === 0 ? lasting("ChecksumMismatch", message) : passing("ChecksumMismatch", message);
  }
  return { sha256, sizeBytes, validator: body.validator };
}
