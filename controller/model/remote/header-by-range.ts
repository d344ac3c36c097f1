/** Reads the GGUF header of a remote file by ranges, and no more of it; a server without ranges is read until the header ends. */
import type { IncomingMessage } from "node:http";
import { MetalbridgeError } from "../../../src/errors.ts";
import { createGgufReader, type GgufReader } from "../../../src/gguf/header.ts";
import type { GgufHeader } from "../../../src/gguf/types.ts";
import { type Answer, exchange, type RemoteConfig, stalled } from "./exchange.ts";
import { LookFailure, lasting, passing, plainUrl, statusFailure } from "./failure.ts";

export interface RemoteHeader {
  readonly header: GgufHeader;
  /** Of the whole file; undefined where the server does not say. */
  readonly sizeBytes: number | undefined;
  readonly etag: string | undefined;
}

export interface HeaderRequest {
  readonly secretHeaders: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

const FIRST_WINDOW = 256 << 10;
const MAX_WINDOW = 4 << 20;

/** Throws LookFailure for whatever the server or the file is guilty of. */
export async function readRemoteHeader(
  url: URL,
  request: HeaderRequest,
  config: RemoteConfig,
): Promise<RemoteHeader> {
  const reader = createGgufReader();
  let progress: Progress = { at: 0, window: FIRST_WINDOW, etag: undefined };
  for (;;) {
    const { at, window } = progress;
    if (at > config.maxHeaderBytes) throw tooLong(url, config);
    const range = { range: `bytes=${at}-${at + window - 1}` };
    const answer = await exchange(url, { ...request, headers: range }, config);
    try {
      const next = await readWindow(url, answer, progress, reader, config);
      if ("header" in next) return next;
      progress = next;
    } finally {
      answer.response.destroy();
    }
  }
}

interface Progress {
  readonly at: number;
  readonly window: number;
  readonly etag: string | undefined;
}

async function readWindow(
  url: URL,
  answer: Answer,
  { at, window, etag }: Progress,
  reader: GgufReader,
  config: RemoteConfig,
): Promise<RemoteHeader | Progress> {
  checkStatus(url, answer, at, reader);
  const validator = etagOf(answer);
  if (at > 0 && validator !== etag) {
    throw passing("SourceChanged", `${plainUrl(url)} changed while it was read`);
  }
  const sizeBytes = totalOf(answer);
  if (sizeBytes === 0) throw lasting("SourceEmpty", `${plainUrl(url)} has zero bytes`);
  const body = await feedBody(answer, reader, config);
  if (body.header !== undefined) return complete(url, body.header, sizeBytes, validator);
  const end = at + body.bytes;
  if (answer.status === 200 || body.bytes === 0 || end === sizeBytes) throw inFile(url, reader.cutOff());
  return { at: end, window: Math.min(MAX_WINDOW, Math.max(window * 2, body.needBytes)), etag: validator };
}

function checkStatus(
  url: URL,
  { status, url: from, response }: Answer,
  at: number,
  reader: GgufReader,
): void {
  if (status === 416) throw inFile(url, reader.cutOff());
  if (status !== 200 && status !== 206) throw statusFailure(from, status, response.headers["retry-after"]);
  if (status === 200 && at > 0) throw passing("SourceChanged", `${plainUrl(url)} stopped answering ranges`);
}

interface Body {
  readonly header: GgufHeader | undefined;
  readonly bytes: number;
  readonly needBytes: number;
}

async function feedBody(answer: Answer, reader: GgufReader, config: RemoteConfig): Promise<Body> {
  const { response, url } = answer;
  const promised = Number(response.headers["content-length"] ?? Number.NaN);
  let bytes = 0;
  let needBytes = 0;
  response.setTimeout(config.stallMs, () => response.destroy(stalled(url, config)));
  try {
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      const progress = reader.feed(chunk);
      if (progress.done) return { header: progress.header, bytes, needBytes: 0 };
      needBytes = progress.needBytes;
      if (bytes > config.maxHeaderBytes) throw tooLong(url, config);
    }
  } catch (error) {
    throw bodyFailure(url, error, bytes);
  }
  if (bytes < promised)
    throw passing("SourceTruncated", `${plainUrl(url)} ended after ${bytes} of ${promised} bytes`);
  return { header: undefined, bytes, needBytes };
}

function bodyFailure(url: URL, error: unknown, bytes: number): unknown {
  if (error instanceof LookFailure) return error;
  if (error instanceof MetalbridgeError) return inFile(url, error);
  const isReset =
    error instanceof Error &&
    "code" in error &&
    (error.code === "ECONNRESET" || error.code === "ERR_STREAM_PREMATURE_CLOSE");
  return isReset
    ? passing("SourceTruncated", `${plainUrl(url)} ended early, after ${bytes} bytes`, error)
    : error;
}

function complete(
  url: URL,
  header: GgufHeader,
  sizeBytes: number | undefined,
  etag: string | undefined,
): RemoteHeader {
  const least = header.dataOffset + header.dataBytes;
  if (sizeBytes !== undefined && sizeBytes < least) {
    const reason = new MetalbridgeError(
      "GgufTruncated",
      `the file has ${sizeBytes} bytes, its header describes ${least}`,
    );
    throw inFile(url, reason);
  }
  return { header, sizeBytes, etag };
}

/** Says where the file is of which something is wrong. */
function inFile(url: URL, error: MetalbridgeError): LookFailure {
  return new LookFailure(
    new MetalbridgeError(error.code, `${plainUrl(url)}: ${error.message}`, error.remedy, { cause: error }),
    false,
  );
}

function tooLong(url: URL, { maxHeaderBytes }: RemoteConfig): LookFailure {
  return lasting("GgufTooLarge", `${plainUrl(url)}: its header does not end within ${maxHeaderBytes} bytes`);
}

function etagOf({ response, hops }: Answer): string | undefined {
  const linked = hops.map((headers) => headers["x-linked-etag"]).find((value) => typeof value === "string");
  return (linked as string | undefined) ?? response.headers.etag ?? response.headers["last-modified"];
}

function totalOf({ status, response }: { status: number; response: IncomingMessage }): number | undefined {
  const { headers } = response;
  const total =
    status === 206 ? /\/(\d+)$/.exec(headers["content-range"] ?? "")?.[1] : headers["content-length"];
  const bytes = Number(total ?? Number.NaN);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
