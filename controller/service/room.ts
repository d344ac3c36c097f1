/** Would a replica find a host if others ended? Asked before anything that serves is ended for it. */
import { hostFacts, replicaClaim } from "../../src/placement/host-facts.ts";
import { planPlacement } from "../../src/placement/plan.ts";
import type { Caches } from "../cache/caches.ts";
import type { HasRoom } from "./plan/plan.ts";

/** Counts what everybody holds; only the demand itself is placed, and takes nobody's place. */
export function roomIn(caches: Caches, monotonicMs: number): HasRoom {
  return (demand, without) => {
    const gone = new Set(without.map(({ metadata }) => metadata.uid));
    const staying = caches.replicas.list().filter(({ metadata }) => !gone.has(metadata.uid));
    const input = {
      hosts: caches.hosts.list().map(hostFacts),
      claims: staying.map(replicaClaim),
      demands: [{ ...demand, mayPreempt: false }],
    };
    return planPlacement(input, monotonicMs).placed.length > 0;
  };
}
