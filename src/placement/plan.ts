/** The planner of placement in one call: which host takes which slot, who makes way, and for every slot without a host, why. Pure and total. */
import { createBoard } from "./board/board.ts";
import type { Demand, PlacementInput, PlacementPlan } from "./types.ts";

/**
 * Serves the demands by effective priority, then age, and gives each to the best host that passes every filter.
 * A demand that fits nowhere does not hold up smaller ones behind it. What runs is never moved for a better score:
 * only a higher priority takes a place, and only one whose owner allows it.
 */
export function planPlacement({ hosts, claims, demands }: PlacementInput, now: number): PlacementPlan {
  const board = createBoard();
  for (const host of hosts) board.setHost(host);
  for (const claim of claims) board.setClaim(claim);
  const byService = new Map<string, Demand[]>();
  for (const demand of demands)
    byService.set(demand.service, [...(byService.get(demand.service) ?? []), demand]);
  for (const [service, own] of byService) board.setDemands(service, own, now);
  const { placed, preempted, recheckAfterMs } = board.pass(now);
  const waiting = board.waiters().flatMap((service) => board.answers(service, now).waiting);
  const plan = { placed, waiting, preemptions: preempted };
  return recheckAfterMs === undefined ? plan : { ...plan, recheckAfterMs };
}
