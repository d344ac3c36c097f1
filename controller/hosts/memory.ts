/** State of the leader between passes: the health of replicas, and writes that the watches do not show yet. */

import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import type { HealthHistory } from "./rollout/health.ts";

/** A write that the watch has not shown for this long is forgotten. */
const UNSEEN_MS = 60_000;

/** All times are monotonic. */
export interface ServiceMemory {
  readonly health: (service: string) => HealthHistory;
  readonly setHealth: (service: string, history: HealthHistory) => void;
  readonly forget: (service: string) => void;
  readonly noteCreated: (replica: InferenceReplica, now: number) => void;
  readonly noteRemoved: (replica: InferenceReplica, now: number) => void;
  /** A change that the watch shows. `isRemoved` is true if the object no longer exists. */
  readonly noteSeen: (replica: InferenceReplica, isRemoved: boolean) => void;
  /** The replicas of a service uid with all writes applied, because the watches lag behind. */
  readonly upToDate: (
    serviceUid: string,
    replicas: readonly InferenceReplica[],
    now: number,
  ) => readonly InferenceReplica[];
}

interface Written {
  readonly replica: InferenceReplica;
  readonly atMs: number;
}

export function createServiceMemory(): ServiceMemory {
  const histories = new Map<string, HealthHistory>();
  const created = new Map<string, Written>();
  const removed = new Map<string, Written>();
  return {
    health: (service) => histories.get(service) ?? new Map(),
    setHealth: (service, history) => {
      if (history.size === 0) histories.delete(service);
      else histories.set(service, history);
    },
    forget: (service) => histories.delete(service),
    noteCreated: (replica, atMs) => created.set(uidOf(replica), { replica, atMs }),
    noteRemoved: (replica, atMs) => removed.set(uidOf(replica), { replica, atMs }),
    noteSeen: (replica, isRemoved) => {
      created.delete(uidOf(replica));
      if (isRemoved || isBeingDeleted(replica)) removed.delete(uidOf(replica));
    },
    upToDate: (serviceUid, replicas, now) => {
      for (const written of [created, removed]) dropOld(written, now);
      const known = new Set(replicas.map(uidOf));
      const missing = [...created.values()]
        .map(({ replica }) => replica)
        .filter((one) => one.spec.template.serviceUid === serviceUid && !known.has(uidOf(one)));
      return [...replicas, ...missing].map((replica) =>
        removed.has(uidOf(replica)) && !isBeingDeleted(replica) ? withDeletion(replica) : replica,
      );
    },
  };
}

function dropOld(written: Map<string, Written>, now: number): void {
  for (const [uid, { atMs }] of written) if (now - atMs > UNSEEN_MS) written.delete(uid);
}

function withDeletion(replica: InferenceReplica): InferenceReplica {
  const deletionTimestamp = replica.metadata.creationTimestamp ?? "1970-01-01T00:00:00Z";
  return { ...replica, metadata: { ...replica.metadata, deletionTimestamp } };
}

function uidOf({ metadata }: InferenceReplica): string {
  return metadata.uid ?? metadata.name;
}
