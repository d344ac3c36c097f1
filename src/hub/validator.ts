/** How a server distinguishes versions of a file's content. */
import type { IncomingHttpHeaders } from "node:http";
import type { SourceResponse } from "./client.ts";

/** The change marker of a file: with the same one, its content is the same. */
export interface Validator {
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
  readonly totalBytes?: number | undefined;
}

/** The validator that an answer's headers carry, without a length. */
export function validatorOf(headers: IncomingHttpHeaders): Validator {
  const { etag, "last-modified": lastModified } = headers;
  return { etag, lastModified };
}

/** Bytes of the whole file, by an answer with status 200 or 206; undefined where the server does not say. */
export function totalBytesOf({
  status,
  headers,
}: Pick<SourceResponse, "status" | "headers">): number | undefined {
  return parseLength(status === 206 ? headers["content-range"]?.split("/")[1] : headers["content-length"]);
}

/** A content length, or undefined for text that is none. */
export function parseLength(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** A source that gives no validator counts as changed: better fetched twice than served stale. */
export function isSameContent(known: Validator, now: Validator): boolean {
  if (now.totalBytes !== undefined && known.totalBytes !== undefined && now.totalBytes !== known.totalBytes)
    return false;
  if (known.etag !== undefined && now.etag !== undefined) return known.etag === now.etag;
  return known.lastModified !== undefined && known.lastModified === now.lastModified;
}
