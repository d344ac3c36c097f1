/** Reads only the GGUF header of a remote file with range requests. From a server without ranges, it reads until the header ends. */
import { MetalbridgeError } from "../../api/errors.ts";
import { createGgufReader, type GgufReader } from "../../models/gguf/header.ts";
import type { GgufHeader } from "../../models/gguf/types.ts";
import { systemCode } from "../../util/atomic-file.ts";
import type { SourceResponse } from "../client.ts";
import { mayBeOfRange, permanent, plainUrl, SourceFailure, statusFailure, transient } from "../failure.ts";
import { parseContentRange, parseLength } from "../lengths.ts";
import type { OpenSource } from "../remote-source.ts";
import { totalBytesOf } from "../validator.ts";

export interface RemoteHeader {
  readonly header: GgufHeader;
  /** Size of the file; undefined if the server does not report it. */
  readonly sizeBytes: number | undefined;
  readonly etag: string | undefined;
}

const FIRST_WINDOW_BYTES = 256 << 10;
const MAX_WINDOW_BYTES = 4 << 20;

/** Throws SourceFailure if there is no complete header within `maxHeaderBytes`. */
export async function readRemoteHeader(
  source: Pick<OpenSource, "open">,
  url: URL,
  limits: { readonly signal: AbortSignal; readonly maxHeaderBytes: number },
  first: Progress = { at: 0, window: FIRST_WINDOW_BYTES, etag: undefined },
): Promise<RemoteHeader> {
  const reader = createGgufReader();
  let progress = first;
  for (;;) {
    const { at, window } = progress;
    const headers = window === undefined ? undefined : { range: `bytes=${at}-${at + window - 1}` };
    const response = await source.open(url, { headers, signal: limits.signal });
    try {
      const next = await readWindow(url, response, progress, reader, limits.maxHeaderBytes);
      if ("header" in next) return next;
      progress = next;
    } catch (error) {
      if (window === undefined || isRequested(response, at) || !mayBeOfRange(error)) throw error;
      return await readRemoteHeader(source, url, limits, { at: 0, window: undefined, etag: undefined });
    } finally {
      response.body.destroy();
    }
  }
}

function isRequested({ status, headers }: SourceResponse, at: number): boolean {
  return status === 206 && parseContentRange(headers["content-range"])?.start === at;
}

interface Progress {
  readonly at: number;
  /** Size of the requested range; undefined: the file is requested without a range. */
  readonly window: number | undefined;
  readonly etag: string | undefined;
}

async function readWindow(
  url: URL,
  response: SourceResponse,
  { at, window, etag }: Progress,
  reader: GgufReader,
  maxHeaderBytes: number,
): Promise<RemoteHeader | Progress> {
  checkStatus(url, response, at, reader);
  const validator = etagOf(response);
  if (at > 0 && validator !== etag) {
    throw transient("SourceChanged", `${plainUrl(url)} changed while it was read`);
  }
  const sizeBytes = totalBytesOf(response);
  if (sizeBytes === 0) throw permanent("SourceEmpty", `${plainUrl(url)} has zero bytes`);
  const body = await feedBody(url, response, reader, { at, maxHeaderBytes });
  if (body.header !== undefined) return complete(url, body.header, sizeBytes, validator);
  const end = at + body.bytes;
  if (window === undefined || response.status === 200 || body.bytes === 0 || end === sizeBytes)
    throw inFile(url, reader.cutOff());
  return {
    at: end,
    window: Math.min(MAX_WINDOW_BYTES, Math.max(window * 2, body.needBytes)),
    etag: validator,
  };
}

function checkStatus(url: URL, response: SourceResponse, at: number, reader: GgufReader): void {
  const { status, url: from, headers } = response;
  if (status === 416) throw inFile(url, reader.cutOff());
  if (status !== 200 && status !== 206) throw statusFailure(from, status, headers["retry-after"]);
  if (status === 206 ? !isRequested(response, at) : at > 0)
    throw permanent("SourceRefused", `${plainUrl(url)} did not answer with the requested range`);
}

interface Body {
  readonly header: GgufHeader | undefined;
  readonly bytes: number;
  readonly needBytes: number;
}

async function feedBody(
  url: URL,
  response: SourceResponse,
  reader: GgufReader,
  { at, maxHeaderBytes }: { readonly at: number; readonly maxHeaderBytes: number },
): Promise<Body> {
  const promised = parseLength(response.headers["content-length"]) ?? 0;
  let bytes = 0;
  let needBytes = 0;
  try {
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      const progress = reader.feed(chunk);
      if (progress.done) return { header: progress.header, bytes, needBytes: 0 };
      needBytes = progress.needBytes;
      if (at + bytes > maxHeaderBytes)
        throw permanent(
          "GgufTooLarge",
          `${plainUrl(url)}: the header is longer than ${maxHeaderBytes} bytes`,
        );
    }
  } catch (error) {
    throw bodyFailure(url, error, bytes);
  }
  if (bytes < promised)
    throw transient("SourceTruncated", `${plainUrl(url)} broke off after ${bytes} of ${promised} bytes`);
  return { header: undefined, bytes, needBytes };
}

function bodyFailure(url: URL, error: unknown, bytes: number): unknown {
  if (error instanceof SourceFailure) return error;
  if (error instanceof MetalbridgeError) return inFile(url, error);
  return ["ECONNRESET", "ERR_STREAM_PREMATURE_CLOSE"].includes(systemCode(error) ?? "")
    ? transient("SourceTruncated", `${plainUrl(url)} broke off after ${bytes} bytes`, error)
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
    const text = `the file has ${sizeBytes} bytes, its header describes ${least}`;
    throw inFile(url, new MetalbridgeError("GgufTruncated", text));
  }
  return { header, sizeBytes, etag };
}

/** Adds the file to the message of an error. */
function inFile(url: URL, error: MetalbridgeError): SourceFailure {
  return new SourceFailure(
    new MetalbridgeError(error.code, `${plainUrl(url)}: ${error.message}`, error.remedy, { cause: error }),
    false,
  );
}

function etagOf({ headers, hops }: SourceResponse): string | undefined {
  const linked = hops.map((hop) => hop["x-linked-etag"]).find((value) => typeof value === "string");
  return (linked as string | undefined) ?? headers.etag ?? headers["last-modified"];
}
