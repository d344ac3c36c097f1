/** Plans placement in one call: a host for each slot, replicas to preempt, and why a slot has no host. Pure and total. */

import type { Demand, PlacementInput, PlacementPlan } from "../types.ts";
import { createScheduler } from "./scheduler.ts";

/**
 * Serves the demands by effective priority, then age, and gives each to the best host that passes every filter.
 * A demand that fits nowhere does not hold up smaller ones behind it. What runs is never moved for a better score:
 * only a higher priority takes a place, and only one whose owner allows it.
 */
export function planPlacement({ hosts, claims, demands }: PlacementInput, now: number): PlacementPlan {
  const scheduler = createScheduler();
  for (const host of hosts) scheduler.setHost(host);
  for (const claim of claims) scheduler.setClaim(claim);
  const byService = new Map<string, Demand[]>();
  for (const demand of demands)
    byService.set(demand.service, [...(byService.get(demand.service) ?? []), demand]);
  for (const [service, own] of byService) scheduler.setDemands(service, own, now);
  const { placed, preempted, recheckAfterMs } = scheduler.pass(now);
  const waiting = scheduler.pending().flatMap((service) => scheduler.answers(service, now).waiting);
  const plan = { placed, waiting, preemptions: preempted };
  return recheckAfterMs === undefined ? plan : { ...plan, recheckAfterMs };
}
