/**
 * How long a host has kept replicas that are being deleted. Counted from when this controller first saw the
 * deletion, on its own monotonic clock: `deletionTimestamp` comes from the clock of another machine.
 */
import { FINALIZER_ENGINE } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { Clock } from "../../src/util/ports.ts";

export interface Deletions {
  /** Milliseconds for which each of these replicas has been leaving, by uid; forgets all others of the host. */
  readonly note: (host: string, replicas: readonly InferenceReplica[]) => ReadonlyMap<string, number>;
}

/** Time for the agent to see the deletion, to withdraw the endpoint on all nodes, and to end the engine after its drain. */
const MARGIN_MS = 60_000;

export function createDeletions(clock: Clock): Deletions {
  const firstSeenMs = new Map<string, ReadonlyMap<string, number>>();
  return {
    note: (host, replicas) => {
      const now = clock.monotonicMs();
      const before = firstSeenMs.get(host);
      const uids = replicas
        .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
        .map(({ metadata }) => metadata.uid ?? "");
      const seen = new Map(uids.map((uid) => [uid, before?.get(uid) ?? now]));
      if (seen.size === 0) firstSeenMs.delete(host);
      else firstSeenMs.set(host, seen);
      return new Map([...seen].map(([uid, sinceMs]) => [uid, now - sinceMs]));
    },
  };
}

/** When a reachable host will have kept a replica for too long; undefined if nothing waits for the host. */
export function overdueInMs(
  { metadata, spec }: InferenceReplica,
  leavingMs: ReadonlyMap<string, number>,
): number | undefined {
  const keptMs = leavingMs.get(metadata.uid ?? "");
  if (keptMs === undefined || metadata.finalizers?.includes(FINALIZER_ENGINE) !== true) return undefined;
  return spec.drainSeconds * 1000 + MARGIN_MS - keptMs;
}
