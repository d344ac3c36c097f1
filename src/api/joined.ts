/** Determines whether an agent has joined as a host. Hosts may be registered long before they join. */
import { getCondition } from "./conditions.ts";
import type { Host } from "./host.ts";

/** Reason of Reachable=Unknown until an agent joins. */
export const NEVER_SEEN = "HostNeverSeen";

/** Uses the condition Reachable of the controller; before it exists, checks whether an agent has written a status. */
export function hasJoined({ status }: Pick<Host, "status">): boolean {
  const reachable = getCondition(status?.conditions, "Reachable");
  return reachable === undefined ? status !== undefined : reachable.reason !== NEVER_SEEN;
}
