/** What a download is given: the file, its source, and what the downloads of this host share. */
import type { RemoteFile } from "../../../src/hub/inspect/resolve.ts";
import type { OpenSource } from "../../../src/hub/remote-source.ts";
import type { Validator } from "../../../src/hub/validator.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { Stored } from "../content/content-sharing.ts";
import type { DownloadQueue, RateLimiter, Tenants } from "./host-limits.ts";
import type { DownloadPart } from "./part.ts";

export interface StoreFile extends RemoteFile {
  /** Its first bytes must be those of a GGUF. */
  readonly isGguf: boolean;
  /** The source itself states the checksum, and not the request alone. */
  readonly isListed: boolean;
}

/** `queuedBehind`: downloads of this host that go first; absent once it is its turn. */
export type ReportBytes = (bytes: number, totalBytes: number | undefined, queuedBehind?: number) => void;

export interface RangeLimits {
  /** Connections for one file, the first included. */
  readonly connections: number;
  readonly segmentBytes: number;
  /** Downloads that would take longer than this share the file among connections; judged after a tenth of it. */
  readonly shareAboveMs: number;
}

/** What all downloads of a store share. */
export interface DownloadSettings {
  readonly clock: Clock;
  readonly log: Log;
  /** Failures in a row that end a download. */
  readonly attempts: number;
  readonly firstBackoffMs: number;
  /** Names this boot of the machine. */
  readonly boot: string;
  readonly ranges: RangeLimits;
  /** Absent: no limit of bandwidth. */
  readonly pace?: RateLimiter | undefined;
  readonly queue: DownloadQueue;
  /** Bytes as they arrive; what a part had already does not count. */
  readonly onReceived?: ((bytes: number) => void) | undefined;
}

export interface DownloadContext extends DownloadSettings {
  readonly source: OpenSource;
  readonly signal: AbortSignal;
  /** The namespaces that the download is for; empty for the operator's own. */
  readonly tenants: Tenants;
  readonly onProgress: ReportBytes;
  /** What the part holds, from its start, hashed and written: other hosts may have it. */
  readonly onStored?: ((stored: Stored) => void) | undefined;
  /** Throws DiskFull when `neededBytes` more do not fit. */
  readonly admit: (neededBytes: number) => Promise<void>;
}

/** A part that has all bytes of its file, which are not verified yet. */
export interface Received {
  readonly sizeBytes: number;
  readonly validator: Validator;
  /** It is what the server has; a file assembled from several responses may be a mixture. */
  readonly isOneResponse: boolean;
}

/** Takes content from other hosts before the origin is asked for it. */
export interface PeerFetcher {
  /** One per download; `since` is when it began, as other hosts see it. */
  readonly begin: (file: SharedFile, since: string) => PeerFetch;
}

/** A file whose content its source, or the Model, has named by checksum. */
export interface SharedFile extends StoreFile {
  /** Lower case. */
  readonly sha256: string;
  /** Of the Model, without credentials. */
  readonly source: string;
}

export interface PeerFetch {
  /** Adds to the part while peers are the better choice. All of it, or undefined: now the origin. Throws MetalbridgeError for the disk. */
  readonly take: (part: DownloadPart, context: DownloadContext) => Promise<Received | undefined>;
  /** Whether all that was taken is the content; if not, whoever gave some of it is dropped. */
  readonly verified: (isContent: boolean) => void;
  readonly whileOrigin: () => OriginPhase;
  readonly end: () => void;
}

/** While the origin gives the bytes. */
export interface OriginPhase {
  /** Aborted once peers are the better choice again. */
  readonly signal: AbortSignal;
  readonly received: (bytes: number) => void;
  /** The origin failed: whether peers may give what is missing. */
  readonly isDispensable: (error: unknown) => boolean;
  readonly end: () => void;
}
