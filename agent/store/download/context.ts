/** The inputs of a download: the file, its source, and the settings that all downloads of this host share. */
import type { RemoteFile } from "../../../src/hub/inspect/resolve.ts";
import type { OpenSource } from "../../../src/hub/remote-source.ts";
import type { Validator } from "../../../src/hub/validator.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { Stored } from "../content/content-sharing.ts";
import type { DownloadQueue, RateLimiter, Tenants } from "./host-limits.ts";
import type { DownloadPart } from "./part.ts";

export interface StoreFile extends RemoteFile {
  /** The first bytes must be a GGUF magic. */
  readonly isGguf: boolean;
  /** True if the source itself states the checksum, and not only the request. */
  readonly isListed: boolean;
}

/** `queuedBehind`: number of downloads ahead in the queue; absent once the download runs. */
export type ReportBytes = (bytes: number, totalBytes: number | undefined, queuedBehind?: number) => void;

export interface RangeLimits {
  /** Connections for one file, including the first. */
  readonly connections: number;
  readonly segmentBytes: number;
  /** Downloads that would take longer than this use several connections. The speed is estimated after a tenth of this time. */
  readonly shareAboveMs: number;
}

/** Settings that all downloads of a store share. */
export interface DownloadSettings {
  readonly clock: Clock;
  readonly log: Log;
  /** Number of consecutive failures that end a download. */
  readonly attempts: number;
  readonly firstBackoffMs: number;
  /** Identifies this boot of the machine. */
  readonly boot: string;
  readonly ranges: RangeLimits;
  /** Absent: no bandwidth limit. */
  readonly pace?: RateLimiter | undefined;
  readonly queue: DownloadQueue;
  /** Called with the number of bytes that arrive, without the bytes that a resumed part already had. */
  readonly onReceived?: ((bytes: number) => void) | undefined;
}

export interface DownloadContext extends DownloadSettings {
  readonly source: OpenSource;
  readonly signal: AbortSignal;
  /** Tenants of the download; an empty string is the operator. */
  readonly tenants: Tenants;
  readonly onProgress: ReportBytes;
  /** Called with the contiguous start of the part that is hashed and written, which other hosts may download. */
  readonly onStored?: ((stored: Stored) => void) | undefined;
  /** Throws DiskFull when `neededBytes` more do not fit. */
  readonly admit: (neededBytes: number) => Promise<void>;
}

/** A part with all bytes of its file, which are not verified yet. */
export interface Received {
  readonly sizeBytes: number;
  readonly validator: Validator;
  /** True if the response to a request without a range had all bytes. A file assembled from several responses may mix two versions. */
  readonly isOneResponse: boolean;
}

/** Downloads content from other hosts before the origin is contacted. */
export interface PeerFetcher {
  /** Starts the peer downloads for one file. `since` is the start time that other hosts see. */
  readonly begin: (file: SharedFile, since: string) => PeerFetch;
}

/** A file with a checksum that the source or the Model states. */
export interface SharedFile extends StoreFile {
  /** In lower case. */
  readonly sha256: string;
  /** The Model's source, without credentials. */
  readonly source: string;
}

export interface PeerFetch {
  /** Appends to the part while peers are the better choice. Undefined: use the origin for the missing bytes. Throws MetalbridgeError for disk failures. */
  readonly take: (part: DownloadPart, context: DownloadContext) => Promise<Received | undefined>;
  /** Reports the checksum result. After a mismatch, the peers that served a part of it are dropped. */
  readonly verified: (isContent: boolean) => void;
  readonly whileOrigin: () => OriginPhase;
  readonly end: () => void;
}

/** The time during which the origin serves the bytes. */
export interface OriginPhase {
  /** Aborted once peers are the better choice again. */
  readonly signal: AbortSignal;
  readonly received: (bytes: number) => void;
  /** After a failure of the origin: true if peers may serve the missing bytes. */
  readonly isDispensable: (error: unknown) => boolean;
  readonly end: () => void;
}
