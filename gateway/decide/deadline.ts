/** How long a request may wait for a replica. Pure. */
import type { Refusal } from "./dialect.ts";

/** Official clients give up after 10 minutes; a hold beyond that would be lost. */
export const MAX_WAIT_SECONDS = 590;
export const DEFAULT_WAIT_SECONDS = 300;
const SECONDS = /^\d{1,6}(\.\d{1,3})?$/;

/** Reads `x-request-deadline`: seconds from now, or an RFC 3339 time. */
export function readWaitSeconds(header: string | undefined, nowMs: number): number | Refusal {
  if (header === undefined) return DEFAULT_WAIT_SECONDS;
  const at = Date.parse(header);
  const seconds = SECONDS.test(header) ? Number(header) : (at - nowMs) / 1_000;
  if (Number.isNaN(seconds)) {
    const message =
      "x-request-deadline is invalid. Set it to seconds, for example 30, or to a time like 2027-01-31T12:00:00Z.";
    return { code: "invalid_deadline", message };
  }
  return Math.min(MAX_WAIT_SECONDS, Math.max(0, seconds));
}
