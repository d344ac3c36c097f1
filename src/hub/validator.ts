/** How a server distinguishes versions of a file's content. */

import type { IncomingHttpHeaders } from "node:http";
import { defined } from "../util/defined.ts";
import type { SourceResponse } from "./client.ts";
import { statusFailure } from "./failure.ts";
import type { OpenSource } from "./remote-source.ts";

/** The change marker of a file: with the same one, its content is the same. */
export interface Validator {
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
  readonly totalBytes?: number | undefined;
}

/** The validator that an answer's headers carry, without a length. */
export function validatorOf(headers: IncomingHttpHeaders): Validator {
  const { etag, "last-modified": lastModified } = headers;
  // One that a later answer does not repeat stays: no keys without a value.
  return defined({ etag, lastModified });
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

/** True when the server says or shows that a file did not change. Throws SourceFailure when it gives no answer. */
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

/** What the server says of a file as it is now, without its content. Throws SourceFailure when it gives no answer. */
export async function readValidator(
  source: OpenSource,
  url: URL,
  signal: AbortSignal,
  conditions: Readonly<Record<string, string>> = {},
): Promise<Validator | "notModified"> {
  let answer = await source.open(url, { method: "HEAD", headers: conditions, signal });
  answer.body.destroy();
  if (answer.status === 304) return "notModified";
  if ([403, 405, 501].includes(answer.status)) {
    // Addresses signed for GET only refuse HEAD.
    answer = await source.open(url, { headers: { range: "bytes=0-0" }, signal });
    answer.body.destroy();
  }
  const { status } = answer;
  if (status !== 200 && status !== 206) throw statusFailure(url, status, answer.headers["retry-after"]);
  return { ...validatorOf(answer.headers), totalBytes: totalBytesOf(answer) };
}
