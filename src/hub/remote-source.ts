/** What every kind of remote source offers. */
import type { SourceCredentials } from "../models/source/credentials.ts";
import type { SourceEndpoints } from "../models/source/kinds/kind.ts";
import type { HttpRequest, HttpRules, RequestAuthorizer, SourceResponse } from "./client.ts";

/** What requests to a source may use. */
export interface Access extends SourceEndpoints {
  readonly rules: HttpRules;
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
export interface SourceReader extends RequestAuthorizer {
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

export interface OpenSource extends SourceReader {
  /** Requests a file, or a range of it by a Range header. Throws SourceFailure. */
  readonly open: (url: URL, request: HttpRequest) => Promise<SourceResponse>;
}
