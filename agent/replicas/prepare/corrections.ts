/** How soon the agent sees that what a failure's message asks for was done. Pure. */

import type { ErrorCode } from "../../../src/api/errors.ts";
import { backoffMs } from "../../../src/util/backoff.ts";
import type { Timings } from "../timings.ts";

/** Corrected by an object, a file or a program that costs next to nothing to read again, and read before anything is done. */
const READ_FIRST: ReadonlySet<string> = new Set<ErrorCode>([
  "SecretMissing",
  "SecretIncomplete",
  "SecretUnreadable",
  "ApiKeysTooMany",
  "CertificateInvalid",
  "RuntimeNotInstalled",
  "RuntimeNotExecutable",
  "SettingUnavailable",
  "PortsExhausted",
  "HostAddressMissing",
  "ReplicaFolderUnwritable",
]);

/** Corrected in the Secret of the source; only another version of it is worth another request to the source. */
const OF_SECRET: ReadonlySet<string> = new Set<ErrorCode>([
  "SecretMissing",
  "SecretIncomplete",
  "SecretUnreadable",
  "SourceUnauthorized",
  "SourceForbidden",
]);

/** What shows that a correction was made, where the failed step itself is too expensive to repeat. */
export type Correction =
  | { readonly what: "secret"; readonly name: string; readonly version: string | undefined }
  | { readonly what: "disk"; readonly roomBytes: number };

export interface FailedAttempt {
  /** The failure is about a file on this host. */
  readonly isOnHost: boolean;
  /** The Secret that the attempt used; its version is undefined where it could not be read. */
  readonly secret?: { readonly name: string; readonly version: string | undefined } | undefined;
  /** What models could have taken on the disk. */
  readonly roomBytes?: number | undefined;
}

export function findCorrection(
  code: ErrorCode,
  { secret, roomBytes }: FailedAttempt,
): Correction | undefined {
  if (OF_SECRET.has(code) && secret !== undefined) return { what: "secret", ...secret };
  return code === "DiskFull" && roomBytes !== undefined ? { what: "disk", roomBytes } : undefined;
}

/** The delay before a failed step is repeated: short where that only reads, growing where it asks others. */
export function retryDelayMs(
  code: ErrorCode,
  failures: number,
  { isOnHost }: Pick<FailedAttempt, "isOnHost">,
  { timings, random }: { readonly timings: Timings; readonly random: number },
): number {
  return isOnHost || READ_FIRST.has(code) ? timings.correctionMs : fetchRetryMs(timings, failures, random);
}

const RETRY_JITTER = [1, 1.2] as const;

/** How long to wait before a fetch is retried. */
export function fetchRetryMs(timings: Timings, failuresInARow: number, random: number): number {
  const { fetchRetryFirstMs: firstMs, fetchRetryMaxMs: capMs } = timings;
  return backoffMs(failuresInARow, { firstMs, capMs, jitter: RETRY_JITTER }, random);
}
