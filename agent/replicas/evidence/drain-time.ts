/** Limit of a drain: the drain time counts from the moment the last request can have arrived, up to the given deadline. */
import type { Stop } from "./observed.ts";
import type { Timings } from "./timings.ts";

/** When a drain stops waiting for requests in flight. During an outage of the API server new requests keep arriving. */
export function drainEndsAt(stop: Stop, timings: Timings): number {
  const { startedAt, deadlineAt, latestAt = Number.POSITIVE_INFINITY } = stop;
  return Math.min(latestAt, Math.max(startedAt, lastRequestAt(stop, timings)) + deadlineAt - startedAt);
}

function lastRequestAt({ why, startedAt, withdrawnAt }: Stop, timings: Timings): number {
  const goodbyeAt = startedAt + timings.goodbyeMs;
  if (withdrawnAt === undefined) return goodbyeAt;
  const settledAt = withdrawnAt + timings.propagationMs;
  // The agent's own shutdown does not wait longer than that.
  return why === "agentStopped" ? Math.min(settledAt, goodbyeAt + timings.propagationMs) : settledAt;
}
