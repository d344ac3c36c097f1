/** Decides which changes of host conditions get an Event. Pure. */
import type { Condition } from "../../src/api/conditions.ts";
import { getCondition } from "../../src/api/conditions.ts";
import { NEVER_SEEN } from "../../src/api/joined.ts";
import type { ReportedEvent } from "../watches/events.ts";
import { FLAPPING, LOST, REACHABLE } from "./conditions.ts";
import { DRAINED } from "./drain.ts";

/** One Event for each condition whose status or reason has changed. */
export function hostEvents(
  before: readonly Condition[] | undefined,
  after: readonly Condition[],
): ReportedEvent[] {
  const events: ReportedEvent[] = [];
  for (const type of [REACHABLE, LOST, FLAPPING, DRAINED]) {
    const [was, is] = [getCondition(before, type), getCondition(after, type)];
    if (is === undefined || (was?.status === is.status && was.reason === is.reason)) continue;
    const event = eventOf(was, is);
    if (event !== undefined) events.push(event);
  }
  return events;
}

function eventOf(
  was: Condition | undefined,
  { type, status, reason, message: note }: Condition,
): ReportedEvent | undefined {
  switch (type) {
    case REACHABLE: {
      const action = "Judge";
      if (status === "True" && was?.status === "False") {
        const text = "the agent renews its Lease again; engines whose replicas were rescheduled are stopped";
        return { type: "Normal", reason: "HostReturned", action, note: text };
      }
      // Hosts may be registered long before they join.
      if (reason === NEVER_SEEN) return undefined;
      return { type: status === "True" ? "Normal" : "Warning", reason, action, note };
    }
    case LOST:
    case FLAPPING:
      return status === "True" ? { type: "Warning", reason, action: "Judge", note } : undefined;
    case DRAINED:
      return { type: reason === "DrainBlocked" ? "Warning" : "Normal", reason, action: "Drain", note };
    default:
      return undefined;
  }
}
