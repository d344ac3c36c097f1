/** Plans placement in one call, for tests of the scheduler. */
import { createScheduler } from "../placement/scheduler/scheduler.ts";
import type { Demand, HostClaim, HostFacts, Placed, Preemption, Unplaced } from "../placement/types.ts";

export interface PlacementInput {
  readonly hosts: readonly HostFacts[];
  readonly claims: readonly HostClaim[];
  readonly demands: readonly Demand[];
}

export interface PlacementPlan {
  readonly placed: readonly Placed[];
  readonly waiting: readonly Unplaced[];
  readonly preemptions: readonly Preemption[];
  readonly recheckAfterMs?: number;
}

export function planPlacement({ hosts, claims, demands }: PlacementInput, now: number): PlacementPlan {
  const scheduler = createScheduler();
  for (const host of hosts) scheduler.setHost(host);
  for (const claim of claims) scheduler.setClaim(claim);
  for (const [service, own] of Map.groupBy(demands, (demand) => demand.service))
    scheduler.setDemands(service, own, now);
  const { placed, preempted, recheckAfterMs } = scheduler.pass(now);
  const waiting = scheduler.pending().flatMap((service) => scheduler.answers(service, now).waiting);
  return { placed, waiting, preemptions: preempted, recheckAfterMs };
}
