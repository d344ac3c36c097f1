/** What to request to resume a part, and what the body of the answer then is: judged by its headers and first bytes. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { SourceResponse } from "../../../src/hub/client.ts";
import { permanent, plainUrl, SourceFailure, statusFailure, transient } from "../../../src/hub/failure.ts";
import { parseLength, type Validator, validatorOf } from "../../../src/hub/validator.ts";
import { systemCode } from "../../../src/util/atomic-file.ts";
import type { OpenPart } from "./part.ts";

const GGUF_MAGIC = "GGUF";
const LFS_POINTER = "version https://git-lfs.github.com/spec/";

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
  return part.sizeBytes === 0 ? {} : rangeHeaders(`${part.sizeBytes}-`, part.validator, hasChecksum);
}

/** For one range of the version that has the validator; none where another version could slip in. */
export function rangeHeaders(
  bytes: string,
  { etag, lastModified }: Validator,
  hasChecksum: boolean,
): Record<string, string> {
  const range = `bytes=${bytes}`;
  // A weak etag does not promise equal bytes (RFC 9110, 13.1.5).
  if (etag !== undefined && !etag.startsWith("W/")) return { range, "if-range": etag };
  if (lastModified !== undefined) return { range, "if-range": lastModified };
  return hasChecksum ? { range } : {};
}

/** Judges status and headers; throws SourceFailure for answers without the file in them. */
export function planBody({ url, status, headers }: SourceResponse, part: OpenPart): Body {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity" && status < 300) {
    throw permanent(
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

/** What reading a body threw, as a SourceFailure where the network was the cause. */
export function bodyFailure(error: unknown, message: string): unknown {
  if (error instanceof SourceFailure || error instanceof MetalbridgeError) return error;
  const code = systemCode(error);
  const isNetwork =
    code === "ECONNRESET" || code === "EPIPE" || code === "ETIMEDOUT" || code?.startsWith("HPE_") === true;
  return isNetwork ? transient("SourceTruncated", message, error) : error;
}

/** A check of the first bytes of a file; it throws SourceFailure. */
export function firstBytesCheck(
  file: { readonly name: string; readonly isGguf: boolean },
  contentType: string | undefined,
): (bytes: Uint8Array) => void {
  const isHtmlName = /\.html?$/i.test(file.name);
  return (bytes) => {
    const start = Buffer.from(bytes.subarray(0, 64)).toString("latin1");
    if (file.isGguf && start.startsWith(GGUF_MAGIC)) return;
    const looksLikeHtml =
      /^\s*<(!doctype|html|\?xml|head|body)/i.test(start) || /^text\/html/i.test(contentType ?? "");
    if (looksLikeHtml && !isHtmlName) throw notAModel(file.name, "a web page");
    if (start.startsWith(LFS_POINTER)) throw notAModel(file.name, "a Git LFS pointer");
    // Not quoted: messages go into statuses, and the bytes may be of a service that is not meant to be read.
    if (file.isGguf) throw notAModel(file.name, `something that does not begin with "${GGUF_MAGIC}"`);
  };
}

function notAModel(name: string, what: string): SourceFailure {
  return permanent("SourceIsNotAModel", `${name} is not a model file but ${what}`);
}
