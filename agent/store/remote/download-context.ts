/** One remote file and what its download may use. */
import type { Clock, Log } from "../../../src/ports.ts";
import type { RemoteRules } from "./request.ts";

export interface RemoteFile {
  /** As the engine must see it: relative, checked. */
  readonly name: string;
  readonly url: URL;
  readonly isGguf: boolean;
  readonly sha256?: string | undefined;
  readonly sizeBytes?: number | undefined;
}

export interface DownloadContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly rules: RemoteRules;
  readonly attempts: number;
  readonly firstBackoffMs: number;
  /** Names this boot of the machine. */
  readonly boot: string;
  readonly secretHeaders: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Bytes that were really received. */
  readonly onReceived?: ((bytes: number) => void) | undefined;
  readonly onProgress: (bytes: number, totalBytes: number | undefined) => void;
  /** Throws DiskFull when `neededBytes` more do not fit. */
  readonly admit: (neededBytes: number) => Promise<void>;
}
