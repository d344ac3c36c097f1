/** How long a drain may last: its time counts from when the last request can have arrived, up to the given deadline. */
import type { Stop } from "../observed.ts";
import type { Timings } from "../timings.ts";

/**
 * When a drain stops waiting for requests in flight. During an API server outage new ones arrive until it
 * recovers.
 */
export function drainEndsAt(stop: Stop, timings: Timings): number {
  const { startedAt, deadlineAt, latestAt = Number.POSITIVE_INFINITY } = stop;
  return Math.min(latestAt, Math.max(startedAt, lastRequestAt(stop, timings)) + deadlineAt - startedAt);
}

function lastRequestAt({ why, startedAt, withdrawnAt }: Stop, timings: Timings): number {
  const goodbyeAt = startedAt + timings.goodbyeMs;
  if (withdrawnAt === undefined) return goodbyeAt;
  const settledAt = withdrawnAt + timings.propagationMs;
  // The agent's own shutdown waits that long and no longer.
  return why === "agentStopped" ? Math.min(settledAt, goodbyeAt + timings.propagationMs) : settledAt;
}
