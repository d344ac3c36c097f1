/** Refusals by a limit, with texts for the client. Pure. */
import type { KeyLimits } from "../../src/gateway/key.ts";
import type { Admission, LimitName } from "./limits.ts";

const UNITS: Readonly<Record<LimitName, string>> = {
  concurrentRequests: "concurrent requests",
  requestsPerMinute: "requests per minute",
  tokensPerMinute: "tokens per minute",
  tokensPerDay: "tokens per day (UTC)",
  tokensPerMonth: "tokens per month (UTC)",
};

/** `waitMs` is the time until a retry can succeed. */
export function refuse(limits: KeyLimits, limit: LimitName, waitMs: number): Admission {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1_000));
  const what = `This API key has reached its limit of ${limits[limit] ?? 0} ${UNITS[limit]}.`;
  const message =
    limit === "concurrentRequests"
      ? `${what} Try again when one of its requests has finished.`
      : `${what} Try again in ${retryAfterSeconds} s.`;
  return { at: "refused", limit, retryAfterSeconds, message };
}
