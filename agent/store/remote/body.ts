/** What to ask for when going on with a part, and what the answer's body then is. */
import { lasting, plainUrl, statusFailure } from "./failure.ts";
import type { OpenPart, Validator } from "./part.ts";
import type { Exchange } from "./request.ts";

export type Body =
  | {
      readonly at: "bytes";
      readonly startsAt: number;
      readonly totalBytes: number | undefined;
      readonly validator: Validator;
    }
  | { readonly at: "complete" }
  | { readonly at: "useless" };

/** Range and If-Range, when a changed file could not slip in behind the bytes that are there. */
export function resumeHeaders(part: OpenPart, hasChecksum: boolean): Record<string, string> {
  if (part.sizeBytes === 0) return {};
  const { etag, lastModified } = part.validator;
  const range = `bytes=${part.sizeBytes}-`;
  // A weak etag does not promise equal bytes (RFC 9110, 13.1.5).
  if (etag !== undefined && !etag.startsWith("W/")) return { range, "if-range": etag };
  if (lastModified !== undefined) return { range, "if-range": lastModified };
  return hasChecksum ? { range } : {};
}

/** Judges status and headers; throws AttemptFailure for answers without the file in them. */
export function planBody({ url, response }: Exchange, part: OpenPart): Body {
  const status = response.statusCode ?? 0;
  const { headers } = response;
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity" && status < 300) {
    throw lasting(
      "SourceRefused",
      `${plainUrl(url)} sends ${encoding}-encoded content although that was not asked for`,
    );
  }
  const validator = validatorOf(headers);
  if (status === 200) {
    const length = parseLength(headers["content-length"]);
    return { at: "bytes", startsAt: 0, totalBytes: length, validator: withTotal(validator, length) };
  }
  if (status === 206) return partialBody(headers["content-range"], validator, part);
  if (status === 416 && part.sizeBytes > 0) {
    const total = /^bytes \*\/(\d+)$/.exec(headers["content-range"] ?? "")?.[1];
    return total === String(part.sizeBytes) ? { at: "complete" } : { at: "useless" };
  }
  throw statusFailure(url, status, headers["retry-after"]);
}

/** The validator that an answer's headers carry. */
export function validatorOf(headers: Exchange["firstHeaders"]): Validator {
  const { etag } = headers;
  const lastModified = headers["last-modified"];
  return { ...(etag === undefined ? {} : { etag }), ...(lastModified === undefined ? {} : { lastModified }) };
}

/** A content length, or undefined when there is none that makes sense. */
export function parseLength(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function partialBody(contentRange: string | undefined, validator: Validator, part: OpenPart): Body {
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(contentRange ?? "");
  const [, start, , total] = match ?? [];
  const isOther =
    start === undefined ||
    Number(start) !== part.sizeBytes ||
    (validator.etag !== undefined &&
      part.validator.etag !== undefined &&
      validator.etag !== part.validator.etag);
  const totalBytes = parseLength(total);
  const before = part.validator.totalBytes;
  if (isOther || (before !== undefined && totalBytes !== undefined && before !== totalBytes))
    return { at: "useless" };
  return {
    at: "bytes",
    startsAt: part.sizeBytes,
    totalBytes,
    validator: { ...part.validator, ...validator },
  };
}

function withTotal(validator: Validator, totalBytes: number | undefined): Validator {
  return totalBytes === undefined ? validator : { ...validator, totalBytes };
}
