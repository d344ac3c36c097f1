/** Builds the headers that resume a part, and classifies the response by its headers and first bytes. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { SourceResponse } from "../../../src/hub/client.ts";
import { permanent, plainUrl, SourceFailure, statusFailure, transient } from "../../../src/hub/failure.ts";
import { parseContentRange, parseLength } from "../../../src/hub/lengths.ts";
import { type Validator, validatorOf } from "../../../src/hub/validator.ts";
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

/** Headers for one range of the version with this validator. Empty if the server could send another version unnoticed. */
export function rangeHeaders(
  bytes: string,
  { etag, lastModified }: Validator,
  hasChecksum: boolean,
): Record<string, string> {
  const range = `bytes=${bytes}`;
  // A weak ETag does not guarantee equal bytes (RFC 9110, 13.1.5).
  if (etag !== undefined && !etag.startsWith("W/")) return { range, "if-range": etag };
  if (lastModified !== undefined) return { range, "if-range": lastModified };
  return hasChecksum ? { range } : {};
}

/** Classifies a response by status and headers. Throws SourceFailure if it does not contain the file. */
export function classifyBody({ url, status, headers }: SourceResponse, part: OpenPart): Body {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity" && status < 300) {
    throw permanent(
      "SourceRefused",
      `${plainUrl(url)} sends ${encoding}-encoded content, which was not requested`,
    );
  }
  const validator = validatorOf(headers);
  if (status === 200) {
    const totalBytes = parseLength(headers["content-length"]);
    // Another version of the file, or the requested range without Content-Range.
    if (part.sizeBytes > 0 && isOtherLength(totalBytes, part)) return { at: "useless" };
    return { at: "bytes", startsAt: 0, totalBytes, validator: { ...validator, totalBytes } };
  }
  if (status === 206) return partialBody(headers["content-range"], validator, part);
  if (status === 416 && part.sizeBytes > 0) {
    const total = /^bytes \*\/(\d+)$/.exec(headers["content-range"] ?? "")?.[1];
    return total === String(part.sizeBytes) ? { at: "complete" } : { at: "useless" };
  }
  throw statusFailure(url, status, headers["retry-after"]);
}

function partialBody(contentRange: string | undefined, validator: Validator, part: OpenPart): Body {
  const range = parseContentRange(contentRange);
  const isOtherVersion =
    validator.etag !== undefined &&
    part.validator.etag !== undefined &&
    validator.etag !== part.validator.etag;
  if (range?.start !== part.sizeBytes || isOtherVersion || isOtherLength(range.totalBytes, part))
    return { at: "useless" };
  return {
    at: "bytes",
    startsAt: part.sizeBytes,
    totalBytes: range.totalBytes,
    validator: { ...part.validator, ...validator },
  };
}

function isOtherLength(totalBytes: number | undefined, { validator }: OpenPart): boolean {
  const before = validator.totalBytes;
  return before !== undefined && totalBytes !== undefined && before !== totalBytes;
}

/** Converts an error of the network into a SourceFailure. */
export function bodyFailure(error: unknown, message: string): unknown {
  if (error instanceof SourceFailure || error instanceof MetalbridgeError) return error;
  const code = systemCode(error);
  const isNetwork =
    code === "ECONNRESET" || code === "EPIPE" || code === "ETIMEDOUT" || code?.startsWith("HPE_") === true;
  return isNetwork ? transient("SourceTruncated", message, error) : error;
}

/** Returns a check for the first bytes of a file. The check throws SourceFailure. */
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
    // The bytes are not quoted, because messages go into statuses and the response may be from a confidential service.
    if (file.isGguf) throw notAModel(file.name, `something that does not begin with "${GGUF_MAGIC}"`);
  };
}

function notAModel(name: string, found: string): SourceFailure {
  return permanent("SourceIsNotAModel", `${name} is not a model file but ${found}`);
}
