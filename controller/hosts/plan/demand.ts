/** Builds the demand of a slot for placement. Pure. */
import { speedsByClass, subjectOf } from "../../../src/capacity/benchmark/subject.ts";
import { demandOf } from "../../../src/capacity/demand.ts";
import type { Demand, HostRefusal } from "../../../src/capacity/placement/types.ts";
import { isServingReplica, ordinalOf } from "../rollout/slots.ts";
import type { SlotReason } from "../rollout/types.ts";
import type { ServiceObserved } from "./observed.ts";
import type { Runnable } from "./templates.ts";

/** A slot that needs a host. */
export interface RequestedSlot {
  readonly ordinal: number;
  readonly why: SlotReason;
}

export function slotDemand(
  { service, replicas, model, benchmarks }: ServiceObserved,
  { template, claim, install }: Runnable,
  { ordinal, why }: RequestedSlot,
  refusals: readonly HostRefusal[],
): Demand {
  const predecessors = replicas.filter((replica) => ordinalOf(replica) === ordinal);
  // A rollout preempts no replica, because its slot still serves, or a bad change is the cause.
  const mayPreempt = (why === "fill" || why === "replace") && !predecessors.some(isServingReplica);
  const subject = model && subjectOf(model, service, { runtime: template.runtime });
  const speeds = speedsByClass(benchmarks, subject);
  const slot = { ordinal, mayPreempt, predecessors, refusals };
  return demandOf({ speeds, service, model, template, claim, install, ...slot });
}
