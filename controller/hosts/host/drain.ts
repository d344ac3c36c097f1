/** Reports the progress of a host drain in condition Drained. Pure. */

import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { keyOf } from "../../../src/api/names.ts";

export const DRAINED = "Drained";
const MAX_NAMES = 3;

/** Returns why a replica (`namespace/name`) stays for now; undefined if its successor is starting. */
export type FindDrainBlocker = (replica: string) => string | undefined;

/** Undefined if no drain is requested. Replicas count until their engines have stopped. */
export function drainedUpdate(
  { spec, metadata }: Host,
  replicas: readonly InferenceReplica[],
  blockerOf: FindDrainBlocker,
): ConditionUpdate | undefined {
  if (!spec.drain) return undefined;
  const type = DRAINED;
  if (replicas.length === 0) {
    const message = `no replica is left on ${metadata.name}; uncordon it to use it again`;
    return { type, status: "True", reason: "HostDrained", message };
  }
  const staying = replicas.filter((replica) => !isBeingDeleted(replica));
  const blocked = staying.flatMap((replica) => {
    const key = keyOf(replica.metadata);
    const reason = blockerOf(key);
    return reason === undefined ? [] : [`${key} stays: ${reason}`];
  });
  const isBlocked = blocked.length === replicas.length;
  const parts = [
    ...counted(replicas.length - staying.length, "draining", "draining"),
    ...counted(staying.length - blocked.length, "waiting for its successor", "waiting for their successors"),
  ];
  const left = `${replicas.length} left on ${metadata.name}`;
  const moving = parts.length === 0 ? left : `${left}: ${parts.join(", ")}`;
  const more = blocked.length > MAX_NAMES ? [`and ${blocked.length - MAX_NAMES} more`] : [];
  const message = [moving, ...blocked.sort().slice(0, MAX_NAMES), ...more].join("; ");
  return { type, status: "False", reason: isBlocked ? "DrainBlocked" : "DrainInProgress", message };
}

function counted(count: number, one: string, several: string): string[] {
  return count === 0 ? [] : [`${count} ${count === 1 ? one : several}`];
}
