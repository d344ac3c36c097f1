/** One remote file and what its download may use. */
import type { RemoteFile } from "../../../src/hub/resolve.ts";
import type { OpenSource } from "../../../src/hub/source.ts";
import type { Clock, Log } from "../../../src/ports.ts";

export interface StoreFile extends RemoteFile {
  /** Its first bytes must be those of a GGUF. */
  readonly isGguf: boolean;
}

export interface DownloadContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly attempts: number;
  readonly firstBackoffMs: number;
  /** Names this boot of the machine. */
  readonly boot: string;
  readonly source: OpenSource;
  readonly signal: AbortSignal;
  /** Bytes that this attempt received; what a part had already does not count. */
  readonly onReceived?: ((bytes: number) => void) | undefined;
  readonly onProgress: (bytes: number, totalBytes: number | undefined) => void;
  /** Throws DiskFull when `neededBytes` more do not fit. */
  readonly admit: (neededBytes: number) => Promise<void>;
}
