/** How long a drain may last: its time counts from when the last request can have come, within what was named. */
import type { Stop } from "../observed.ts";
import type { Timings } from "../timings.ts";

/** When requests in flight are waited for no longer. Through an outage of the API server new ones come until it is over. */
export function drainEndsAt(stop: Stop, timings: Timings): number {
  const { startedAt, deadlineAt, latestAt = Number.POSITIVE_INFINITY } = stop;
  return Math.min(latestAt, Math.max(startedAt, lastRequestAt(stop, timings)) + deadlineAt - startedAt);
}

function lastRequestAt({ why, startedAt, withdrawnAt }: Stop, timings: Timings): number {
  const goodbyeAt = startedAt + timings.goodbyeMs;
  if (withdrawnAt === undefined) return goodbyeAt;
  const settledAt = withdrawnAt + timings.propagationMs;
  // Whoever ends the agent waits for that long and no longer.
  return why === "agentStopped" ? Math.min(settledAt, goodbyeAt + timings.propagationMs) : settledAt;
}
