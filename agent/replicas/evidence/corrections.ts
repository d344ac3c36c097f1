/** How soon the agent notices that the user corrected what a failure's message asks for. Pure. */

import type { ErrorCode } from "../../../src/api/errors.ts";
import { backoffMs } from "../../../src/util/backoff.ts";
import type { Timings } from "./timings.ts";

/** The correction is an object, a file or a program: cheap to read again, and read before anything else is done. */
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

/** The correction is made in the source's Secret: only a new version of it justifies another request to the source. */
const OF_SECRET: ReadonlySet<string> = new Set<ErrorCode>([
  "SecretMissing",
  "SecretIncomplete",
  "SecretUnreadable",
  "SourceUnauthorized",
  "SourceForbidden",
]);

/** How to detect a correction if the failed step itself is too expensive to repeat. */
export type Correction =
  | { readonly what: "secret"; readonly name: string; readonly version: string | undefined }
  | { readonly what: "disk"; readonly roomBytes: number };

export interface FailedAttempt {
  /** True if the failure concerns a file on this host. */
  readonly isOnHost: boolean;
  /** The Secret that the attempt used; `version` is undefined if it could not be read. */
  readonly secret?: { readonly name: string; readonly version: string | undefined } | undefined;
  /** Disk space that was left for models. */
  readonly roomBytes?: number | undefined;
}

export function findCorrection(
  code: ErrorCode,
  { secret, roomBytes }: FailedAttempt,
): Correction | undefined {
  if (OF_SECRET.has(code) && secret !== undefined) return { what: "secret", ...secret };
  return code === "DiskFull" && roomBytes !== undefined ? { what: "disk", roomBytes } : undefined;
}

/** Delay before a failed step is retried: short if the step only reads, growing if it sends requests to other systems. */
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
