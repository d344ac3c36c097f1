/** Validators, by which a server distinguishes versions of a file's content. */
import type { IncomingHttpHeaders } from "node:http";
import { defined } from "../util/defined.ts";
import type { SourceResponse } from "./client.ts";
import { statusFailure } from "./failure.ts";
import { parseContentRange, parseLength } from "./lengths.ts";
import type { OpenSource } from "./remote-source.ts";

/** Files with the same validator have the same content. */
export interface Validator {
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
  readonly totalBytes?: number | undefined;
}

/** The validator in the headers of a response, without a length. */
export function validatorOf(headers: IncomingHttpHeaders): Validator {
  const { etag, "last-modified": lastModified } = headers;
  // Keys without a value are omitted, so that a spread does not overwrite the value of an earlier response.
  return defined({ etag, lastModified });
}

/** Size of the complete file in a response with status 200 or 206; undefined if the server does not report it. */
export function totalBytesOf({
  status,
  headers,
}: Pick<SourceResponse, "status" | "headers">): number | undefined {
  if (status === 206) return parseContentRange(headers["content-range"])?.totalBytes;
  return parseLength(headers["content-length"]);
}

/** False without validators, because fetching twice is better than serving stale content. */
function isSameContent(known: Validator, now: Validator): boolean {
  if (now.totalBytes !== undefined && known.totalBytes !== undefined && now.totalBytes !== known.totalBytes)
    return false;
  if (known.etag !== undefined && now.etag !== undefined) return known.etag === now.etag;
  return known.lastModified !== undefined && known.lastModified === now.lastModified;
}

/** True if the server confirms that a file did not change. Throws SourceFailure without a response. */
export async function isUnchanged(
  source: OpenSource,
  url: URL,
  known: Validator,
  signal: AbortSignal,
): Promise<boolean> {
  const headers: Record<string, string> = {
    ...(known.etag === undefined ? {} : { "if-none-match": known.etag }),
    ...(known.lastModified === undefined ? {} : { "if-modified-since": known.lastModified }),
  };
  const now = await readValidator(source, url, signal, headers);
  return now === "notModified" || isSameContent(known, now);
}

/** Reads the current validator of a file without its content. Throws SourceFailure without a response. */
export async function readValidator(
  source: OpenSource,
  url: URL,
  signal: AbortSignal,
  conditions: Readonly<Record<string, string>> = {},
): Promise<Validator | "notModified"> {
  let response = await source.open(url, { method: "HEAD", headers: conditions, signal });
  response.body.destroy();
  if (response.status === 304) return "notModified";
  if ([403, 405, 501].includes(response.status)) {
    // An address that is signed only for GET refuses HEAD.
    response = await source.open(url, { headers: { range: "bytes=0-0" }, signal });
    response.body.destroy();
  }
  const { status } = response;
  if (status !== 200 && status !== 206) throw statusFailure(url, status, response.headers["retry-after"]);
  return { ...validatorOf(response.headers), totalBytes: totalBytesOf(response) };
}
