/** What the leader remembers of services between passes: how their replicas got on, and what it wrote and has not seen yet. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { backoffMs } from "../../src/kube/backoff.ts";
import type { HealthBook } from "./rollout/health.ts";

/** What the watch has not shown for so long is not coming any more. */
const UNSEEN_MS = 60_000;

const RETRY_FIRST_MS = 1_000;
const RETRY_CAP_MS = 60_000;

/** Times are monotonic. */
export interface ServiceMemory {
  readonly health: (service: string) => HealthBook;
  readonly setHealth: (service: string, book: HealthBook) => void;
  /** When to try again what the API server does not take; undefined where it takes all. */
  readonly retryMs: (service: string, hasRejections: boolean, now: number) => number | undefined;
  readonly forget: (service: string) => void;
  readonly noteCreated: (replica: InferenceReplica, now: number) => void;
  readonly noteRemoved: (replica: InferenceReplica, now: number) => void;
  /** A change that the watch shows; `before` where the object is gone. */
  readonly noteSeen: (replica: InferenceReplica, isGone: boolean) => void;
  /** The copies of one service uid's replicas as they are after everything that was written: copies lag behind. */
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
  const books = new Map<string, HealthBook>();
  const rejectedSinceMs = new Map<string, number>();
  const created = new Map<string, Written>();
  const removed = new Map<string, Written>();
  return {
    health: (service) => books.get(service) ?? new Map(),
    setHealth: (service, book) => {
      if (book.size === 0) books.delete(service);
      else books.set(service, book);
    },
    retryMs: (service, hasRejections, now) => {
      if (!hasRejections) rejectedSinceMs.delete(service);
      if (!hasRejections) return undefined;
      const sinceMs = rejectedSinceMs.get(service) ?? now;
      rejectedSinceMs.set(service, sinceMs);
      // As long again as it has been so: however often something else makes a pass, the pauses grow with time alone.
      return backoffMs(1, { firstMs: Math.max(RETRY_FIRST_MS, now - sinceMs), capMs: RETRY_CAP_MS });
    },
    forget: (service) => {
      books.delete(service);
      rejectedSinceMs.delete(service);
    },
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
