/**
 * Hosts that refused a service's replicas: which replicas may be replaced, and which hosts to avoid. Pure.
 */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { REFUSAL_MS } from "../../src/capacity/placement/filters.ts";
import type { HostRefusal } from "../../src/capacity/placement/types.ts";

/** How long a replica may wait for memory before it is rescheduled. */
export const MEMORY_WAIT_MS = 30_000;

/** Reasons with which an agent reports that a replica waits for memory. */
const MEMORY_REASONS = new Set(["InsufficientMemory", "MemoryUnknown", "MemoryPressure"]);

/**
 * Reasons with which an agent reports that a file is missing on its host, or outside the folders it may read.
 */
const FILE_REASONS = new Set(["SourceNotAllowed", "SourceNotFound"]);

/** Since when a replica has been refused, by its uid. Times are the controller's monotonic clock. */
export interface RefusalHistory {
  readonly since: ReadonlyMap<string, number>;
  readonly refusals: readonly HostRefusal[];
}

export interface RefusalReading {
  readonly book: RefusalHistory;
  /** Names of replicas that were refused for longer than the patience. */
  readonly displaced: ReadonlySet<string>;
  readonly recheckAfterMs?: number;
}

export const NO_REFUSALS: RefusalHistory = { since: new Map(), refusals: [] };

/** Continues from the last pass; the timer restarts for a replica that is no longer refused. */
export function readRefusals(
  book: RefusalHistory,
  replicas: readonly InferenceReplica[],
  now: number,
): RefusalReading {
  const since = new Map<string, number>();
  const displaced = new Set<string>();
  const fresh: HostRefusal[] = [];
  let recheckAfterMs: number | undefined;
  for (const replica of replicas) {
    const { uid = "", name } = replica.metadata;
    if (!isRefused(replica)) continue;
    const startMs = book.since.get(uid) ?? now;
    since.set(uid, startMs);
    const leftMs = startMs + MEMORY_WAIT_MS - now;
    if (leftMs > 0) {
      recheckAfterMs = Math.min(recheckAfterMs ?? leftMs, leftMs);
      continue;
    }
    displaced.add(name);
    const message = replica.status?.reason ?? "refused";
    fresh.push({ host: replica.spec.template.hostName, atMs: now, message });
  }
  const remembered = book.refusals.filter(
    ({ host, atMs }) => now - atMs < REFUSAL_MS && !fresh.some((refusal) => refusal.host === host),
  );
  return { book: { since, refusals: [...remembered, ...fresh] }, displaced, recheckAfterMs };
}

function isRefused({ metadata, spec, status }: InferenceReplica): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  if (status?.phase === "Evicted") return true;
  return (
    lacksFile({ spec, status }) || (status?.phase === "Waiting" && MEMORY_REASONS.has(status.reason ?? ""))
  );
}

/** Its host lacks the file of its Model, which may be on another. */
export function lacksFile({ spec, status }: Pick<InferenceReplica, "spec" | "status">): boolean {
  const { source } = spec.template.model;
  const isFile = source.startsWith("/") || source.startsWith("file:");
  return isFile && status?.phase === "Failed" && FILE_REASONS.has(status.reason ?? "");
}
