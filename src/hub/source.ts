/** What every kind of remote source offers. A new kind is a folder with one `open…` function, and a line in `openSource`. */

import type { SourceCredentials } from "../models/source/credentials.ts";
import type { RemoteSource } from "../models/source/source.ts";
import { openBucket } from "./buckets/bucket.ts";
import { gsService } from "./buckets/gs.ts";
import { ossService } from "./buckets/oss.ts";
import { s3Service } from "./buckets/s3.ts";
import {
  type HttpRequest,
  type HttpRules,
  type RequestAuthorizer,
  type SourceResponse,
  sendSourceRequest,
} from "./client.ts";
import { statusFailure } from "./failure.ts";
import { openHttps } from "./https/source.ts";
import { openHuggingFace } from "./hugging-face/source.ts";
import { openModelScope } from "./modelscope/source.ts";
import { openOci } from "./oci/source.ts";
import { openOllama } from "./ollama/source.ts";
import { isSameContent, totalBytesOf, type Validator, validatorOf } from "./validator.ts";

/** What requests to a source may use. */
export interface Access {
  readonly rules: HttpRules;
  /** Hugging Face, or a mirror with the same API. */
  readonly hfEndpoint: string;
  /** Where ollama:// sources without a host are; absent: Ollama's own registry. */
  readonly ollamaRegistry?: string | undefined;
  /** From the Model's Secret; undefined where it names none. */
  readonly credentials?: SourceCredentials | undefined;
  /** Of this machine, for sources that use them where the Model names no Secret. */
  readonly machineCredentials?: SourceCredentials | undefined;
  /** Commit to read instead of the source's own revision. */
  readonly revision?: string | undefined;
}

export interface ListedFile {
  readonly name: string;
  readonly sizeBytes?: number | undefined;
  /** Hex in lower case, where the source knows it. */
  readonly sha256?: string | undefined;
  /** Another one for other content, where the source's list has such a thing. */
  readonly contentId?: string | undefined;
}

/** All files of a source at one state of it. */
export interface FileList {
  /** The commit; undefined where the source has none. */
  readonly revision?: string | undefined;
  readonly files: readonly ListedFile[];
  /** The one among `files` that the source itself names as the model's projector. */
  readonly projector?: string | undefined;
}

/** What a kind of source implements. */
export interface SourceKind extends RequestAuthorizer {
  /** For messages. */
  readonly shown: string;
  /** File that the source itself names. */
  readonly named?: string | undefined;
  readonly rules: HttpRules;
  /** Requests carry credentials: what they open is not for everyone. */
  readonly hasCredentials: boolean;
  /** Whether a file with this address (without query) is one of this source at its present endpoint. */
  readonly holds: (address: string) => boolean;
  /** Undefined where the source has no list: a web server, or a mirror without the API. Throws SourceFailure. */
  readonly list: (signal: AbortSignal) => Promise<FileList | undefined>;
  /** Address of a file, by its name in the list or relative to the source. Throws MetalbridgeError. */
  readonly locate: (name: string, list: FileList | undefined) => URL;
  /** SHA-256 of one file in hex, for sources that tell it by a request of its own. Throws SourceFailure. */
  readonly checksum?: (name: string, signal: AbortSignal) => Promise<string | undefined>;
}

export interface OpenSource extends SourceKind {
  /** Requests a file, or a range of it by a Range header. Throws SourceFailure. */
  readonly open: (url: URL, request: HttpRequest) => Promise<SourceResponse>;
}

/** Sends nothing yet. Throws MetalbridgeError for credentials that cannot be right. */
export function openSource(source: RemoteSource, access: Access): OpenSource {
  const kind = openKind(source, access);
  const { authorize, judge, rules } = kind;
  const authority = { ...(authorize && { authorize }), ...(judge && { judge }) };
  return { ...kind, open: (url, request) => sendSourceRequest(url, { ...request, ...authority }, rules) };
}

function openKind(source: RemoteSource, access: Access): SourceKind {
  switch (source.kind) {
    case "http":
      return openHttps(source, access);
    case "hf":
      return openHuggingFace(source, access);
    case "modelscope":
      return openModelScope(source, access);
    case "s3":
      return openBucket(source, s3Service(source.bucket, access));
    case "gs":
      return openBucket(source, gsService(source.bucket, access));
    case "oss":
      return openBucket(source, ossService(source.bucket, access));
    case "oci":
      return openOci(source, access);
    case "ollama":
      return openOllama(source, access);
    default:
      return source satisfies never;
  }
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
