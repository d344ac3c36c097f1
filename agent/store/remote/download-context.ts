/** One remote file and what its download may use. */
import type { RemoteFile } from "../../../src/hub/resolve.ts";
import type { OpenSource } from "../../../src/hub/source.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { DownloadQueue, RateLimiter, Tenants } from "./host-limits.ts";
import type { PrefixHash } from "./prefix-hash.ts";
import type { RangeLimits } from "./ranges.ts";

export interface StoreFile extends RemoteFile {
  /** Its first bytes must be those of a GGUF. */
  readonly isGguf: boolean;
  /** The source itself states the checksum, and not the request alone. */
  readonly isListed: boolean;
}

/** `queuedBehind`: downloads of this host that go first; absent once it is its turn. */
export type ReportBytes = (bytes: number, totalBytes: number | undefined, queuedBehind?: number) => void;

export interface Stored {
  readonly hash: PrefixHash;
  /** Without holes. */
  readonly bytes: number;
  readonly totalBytes: number | undefined;
}

export interface DownloadContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly attempts: number;
  readonly firstBackoffMs: number;
  /** Names this boot of the machine. */
  readonly boot: string;
  readonly ranges: RangeLimits;
  /** Absent: no limit of bandwidth. */
  readonly pace?: RateLimiter | undefined;
  readonly queue: DownloadQueue;
  /** The namespaces that the download is for; empty for the operator's own. */
  readonly tenants: Tenants;
  readonly source: OpenSource;
  readonly signal: AbortSignal;
  /** Bytes that this attempt received; what a part had already does not count. */
  readonly onReceived?: ((bytes: number) => void) | undefined;
  readonly onProgress: ReportBytes;
  /** What the part holds, from its start, hashed and written: other hosts may have it. */
  readonly onStored?: ((stored: Stored) => void) | undefined;
  /** Throws DiskFull when `neededBytes` more do not fit. */
  readonly admit: (neededBytes: number) => Promise<void>;
}
