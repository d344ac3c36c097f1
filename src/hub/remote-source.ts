/** The interface of every kind of remote source. */
import type { SourceCredentials } from "../models/source/credentials.ts";
import type { SourceEndpoints } from "../models/source/kinds/kind.ts";
import type { HttpRequest, HttpRules, RequestAuthorizer, SourceResponse } from "./client.ts";

/** Rules, endpoints and credentials for the requests to a source. */
export interface Access extends SourceEndpoints {
  readonly rules: HttpRules;
  /** Credentials from the Model's Secret; undefined if the Model names none. */
  readonly credentials?: SourceCredentials | undefined;
  /** Credentials of this machine, for a Model without a Secret. Not all kinds of sources use them. */
  readonly machineCredentials?: SourceCredentials | undefined;
  /** Commit to read instead of the source's own revision. */
  readonly revision?: string | undefined;
}

export interface ListedFile {
  readonly name: string;
  readonly sizeBytes?: number | undefined;
  /** Hex in lower case, if the source knows it. */
  readonly sha256?: string | undefined;
  /** An identifier that differs for different content, if the source's list has one. */
  readonly contentId?: string | undefined;
}

/** All files of a source at one point in time. */
export interface FileList {
  /** The commit; undefined if the source has none. */
  readonly revision?: string | undefined;
  readonly files: readonly ListedFile[];
  /** The one among `files` that the source itself names as the model's projector. */
  readonly projector?: string | undefined;
}

/** The implementation of one kind of source. */
export interface SourceReader extends RequestAuthorizer {
  /** Name for messages. */
  readonly shown: string;
  /** File that the source itself names. */
  readonly named?: string | undefined;
  readonly rules: HttpRules;
  /** True if requests carry credentials. Other requests must not reuse the content without a check. */
  readonly hasCredentials: boolean;
  /** True if an address (without query) is a file of this source at its current endpoint. */
  readonly holds: (address: string) => boolean;
  /** Undefined for a source without a list, such as a web server or a mirror without the API. Throws SourceFailure. */
  readonly list: (signal: AbortSignal) => Promise<FileList | undefined>;
  /** Address of a file, by its name in the list or relative to the source. Throws MetalbridgeError. */
  readonly locate: (name: string, list: FileList | undefined) => URL;
  /** SHA-256 of one file in hex, for sources that report it in a separate request. Throws SourceFailure. */
  readonly checksum?: (name: string, signal: AbortSignal) => Promise<string | undefined>;
}

export interface OpenSource extends SourceReader {
  /** Requests a file, or a range of it with a Range header. Throws SourceFailure. */
  readonly open: (url: URL, request: HttpRequest) => Promise<SourceResponse>;
}
