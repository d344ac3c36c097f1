/**
 * Tracks how long a host has kept replicas that are being deleted, from when this controller first saw the deletion.
 * `deletionTimestamp` is not used, because it is from another machine's clock.
 */

import { FINALIZER_ENGINE } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Clock } from "../../../src/util/ports.ts";

export interface Deletions {
  /** Returns the milliseconds since the deletion of each of these replicas, by uid, and forgets the others of the host. */
  readonly note: (host: string, replicas: readonly InferenceReplica[]) => ReadonlyMap<string, number>;
}

/** Time for the agent to see the deletion, withdraw the endpoint on all nodes, and stop the engine after its drain. */
const MARGIN_MS = 60_000;

export function createDeletions(clock: Clock): Deletions {
  const firstSeenMs = new Map<string, ReadonlyMap<string, number>>();
  return {
    note: (host, replicas) => {
      const now = clock.monotonicMs();
      const before = firstSeenMs.get(host);
      const uids = replicas.filter(isBeingDeleted).map(({ metadata }) => metadata.uid ?? "");
      const seen = new Map(uids.map((uid) => [uid, before?.get(uid) ?? now]));
      if (seen.size === 0) firstSeenMs.delete(host);
      else firstSeenMs.set(host, seen);
      return new Map([...seen].map(([uid, sinceMs]) => [uid, now - sinceMs]));
    },
  };
}

/** Time until a reachable host has kept a replica for too long; undefined if nothing waits for the host. */
export function overdueInMs(
  { metadata, spec }: InferenceReplica,
  leavingMs: ReadonlyMap<string, number>,
): number | undefined {
  const keptMs = leavingMs.get(metadata.uid ?? "");
  if (keptMs === undefined || metadata.finalizers?.includes(FINALIZER_ENGINE) !== true) return undefined;
  return spec.drainSeconds * 1000 + MARGIN_MS - keptMs;
}
