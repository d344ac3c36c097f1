/**
 * What the leader remembers of services between passes: the health of their replicas, and writes not yet
 * seen.
 */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { HealthHistory } from "./rollout/health.ts";

/** A write that the watch has not shown for this long is forgotten. */
const UNSEEN_MS = 60_000;

/** Times are monotonic. */
export interface ServiceMemory {
  readonly health: (service: string) => HealthHistory;
  readonly setHealth: (service: string, book: HealthHistory) => void;
  readonly forget: (service: string) => void;
  readonly noteCreated: (replica: InferenceReplica, now: number) => void;
  readonly noteRemoved: (replica: InferenceReplica, now: number) => void;
  /** A change that the watch shows; `before` where the object is gone. */
  readonly noteSeen: (replica: InferenceReplica, isGone: boolean) => void;
  /** The replicas of one service uid with all writes applied, as the watches lag behind. */
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
  const books = new Map<string, HealthHistory>();
  const created = new Map<string, Written>();
  const removed = new Map<string, Written>();
  return {
    health: (service) => books.get(service) ?? new Map(),
    setHealth: (service, book) => {
      if (book.size === 0) books.delete(service);
      else books.set(service, book);
    },
    forget: (service) => books.delete(service),
    noteCreated: (replica, atMs) => created.set(uidOf(replica), { replica, atMs }),
    noteRemoved: (replica, atMs) => removed.set(uidOf(replica), { replica, atMs }),
    noteSeen: (replica, isGone) => {
      created.delete(uidOf(replica));
      if (isGone || replica.metadata.deletionTimestamp !== undefined) removed.delete(uidOf(replica));
    },
    upToDate: (serviceUid, replicas, now) => {
      for (const written of [created, removed]) dropOld(written, now);
      const known = new Set(replicas.map(uidOf));
      const missing = [...created.values()]
        .map(({ replica }) => replica)
        .filter((one) => one.spec.template.serviceUid === serviceUid && !known.has(uidOf(one)));
      return [...replicas, ...missing].map((replica) => {
        const isLeaving = replica.metadata.deletionTimestamp !== undefined;
        return removed.has(uidOf(replica)) && !isLeaving ? asLeaving(replica) : replica;
      });
    },
  };
}

function dropOld(written: Map<string, Written>, now: number): void {
  for (const [uid, { atMs }] of written) if (now - atMs > UNSEEN_MS) written.delete(uid);
}

function asLeaving(replica: InferenceReplica): InferenceReplica {
  const deletionTimestamp = replica.metadata.creationTimestamp ?? "1970-01-01T00:00:00Z";
  return { ...replica, metadata: { ...replica.metadata, deletionTimestamp } };
}

function uidOf({ metadata }: InferenceReplica): string {
  return metadata.uid ?? metadata.name;
}
