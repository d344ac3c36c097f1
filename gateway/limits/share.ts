/** The share of one gateway in the limits of a key, where the gateways share no counters. Pure. */
import type { KeyLimits } from "../../src/gateway/key.ts";

/**
 * Rates are divided exactly. Concurrent requests are divided and rounded up, because a share of 0 would refuse every request.
 * Budgets are not divided: every gateway reads the usage records of all.
 */
export function shareOf(limits: KeyLimits, gateways: number): KeyLimits {
  const parts = Math.max(1, gateways);
  const part = (limit: number | undefined) => (limit === undefined ? undefined : limit / parts);
  const concurrent = part(limits.concurrentRequests);
  return {
    ...limits,
    concurrentRequests: concurrent === undefined ? undefined : Math.ceil(concurrent),
    requestsPerMinute: part(limits.requestsPerMinute),
    tokensPerMinute: part(limits.tokensPerMinute),
  };
}
