/** Tracks hosts that refuse a service's replicas: which replicas to replace, and which hosts to avoid. Pure. */

import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { REFUSAL_MS } from "../../../src/capacity/placement/filters.ts";
import type { HostRefusal } from "../../../src/capacity/placement/types.ts";

/** Maximum time that a replica waits for memory before it is rescheduled. */
export const MEMORY_WAIT_MS = 30_000;

/** Reasons with which an agent reports that a replica waits for memory. */
const MEMORY_REASONS = new Set(["InsufficientMemory", "MemoryUnknown", "MemoryPressure"]);

/** Reasons with which an agent reports that a file is missing on its host, or outside the allowed folders. */
const FILE_REASONS = new Set(["SourceNotAllowed", "SourceNotFound"]);

/** Refusals of earlier passes. Times are from the controller's monotonic clock. */
export interface RefusalHistory {
  /** Start of the refusal, by uid of the replica. */
  readonly since: ReadonlyMap<string, number>;
  readonly refusals: readonly HostRefusal[];
}

export interface RefusalReading {
  readonly history: RefusalHistory;
  /** Names of replicas that were refused for longer than `MEMORY_WAIT_MS`. */
  readonly displaced: ReadonlySet<string>;
  readonly recheckAfterMs?: number;
}

export const NO_REFUSALS: RefusalHistory = { since: new Map(), refusals: [] };

/** Continues from the history of the last pass. A replica that is no longer refused is forgotten. */
export function readRefusals(
  history: RefusalHistory,
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
    const startMs = history.since.get(uid) ?? now;
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
  const remembered = history.refusals.filter(
    ({ host, atMs }) => now - atMs < REFUSAL_MS && !fresh.some((refusal) => refusal.host === host),
  );
  return { history: { since, refusals: [...remembered, ...fresh] }, displaced, recheckAfterMs };
}

function isRefused(replica: InferenceReplica): boolean {
  const { spec, status } = replica;
  if (isBeingDeleted(replica)) return false;
  if (status?.phase === "Evicted") return true;
  return (
    lacksFile({ spec, status }) || (status?.phase === "Waiting" && MEMORY_REASONS.has(status.reason ?? ""))
  );
}

/** True if the host lacks the file of the Model, which may be on another host. */
export function lacksFile({ spec, status }: Pick<InferenceReplica, "spec" | "status">): boolean {
  const { source } = spec.template.model;
  const isFile = source.startsWith("/") || source.startsWith("file:");
  return isFile && status?.phase === "Failed" && FILE_REASONS.has(status.reason ?? "");
}
