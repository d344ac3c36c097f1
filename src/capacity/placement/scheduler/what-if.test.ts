import fc from "fast-check";
import { expect, test } from "vitest";
import { planPlacement } from "../../testing/plan-placement.ts";
import type { Demand, HostClaim, HostFacts } from "../types.ts";
import { createScheduler } from "./scheduler.ts";

const names = ["a", "b", "c", "d"];

const someHost = (name: string) =>
  fc
    .record({
      budget: fc.oneof(
        fc.record({
          known: fc.constant(true as const),
          bytes: fc.integer({ min: 1, max: 20 }),
          basis: fc.constant("test"),
        }),
        fc.constant({ known: false as const, why: "not reported" }),
      ),
      isUp: fc.boolean(),
      isDrained: fc.boolean(),
    })
    .map(({ budget, isUp, isDrained }) => {
      const host: HostFacts = {
        name,
        labels: {},
        ready: { status: "True" },
        reachable: { status: isUp ? "True" : "False" },
        isLost: false,
        pressures: [],
        runtimes: ["llamacpp"],
        models: [],
        budget,
        cordon: isDrained ? "drain" : undefined,
      };
      return host;
    });

const someClaims = fc.array(
  fc.record({
    host: fc.constantFrom(...names),
    service: fc.constantFrom("x/own", "x/other"),
    bytes: fc.integer({ min: 0, max: 12 }),
    isLeaving: fc.boolean(),
    isGone: fc.boolean(),
  }),
  { maxLength: 10 },
);

const someDemand = fc.record({
  bytes: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
  spread: fc.constantFrom<Demand["choice"]["spread"]>("Preferred", "Required", "None"),
  hosts: fc.subarray(names),
  refused: fc.subarray(names),
});

test("whether there is room is what a plan without the others says, and asking changes nothing", () => {
  fc.assert(
    fc.property(fc.tuple(...names.map(someHost)), someClaims, someDemand, (hosts, given, asked) => {
      const claims = given.map(({ host, service, bytes, isLeaving }, index): HostClaim => {
        const claim = { replica: `x/r${index}`, host, service, bytes };
        return isLeaving ? { ...claim, leaving: {} } : claim;
      });
      const gone = claims.filter((_, index) => given[index]?.isGone === true);
      const demand: Demand = {
        service: "x/own",
        ordinal: 0,
        priority: 10_000,
        since: 0,
        mayPreempt: false,
        runtime: "llamacpp",
        memory: asked.bytes === undefined ? { known: false } : { known: true, bytes: asked.bytes },
        speeds: {},
        weights: { source: "hf://org/model" },
        // As a service asks: what would go for a slot held it.
        predecessors: gone
          .filter(({ service }) => service === "x/own")
          .map(({ replica, host }) => ({ replica, host, sharesWeights: false })),
        choice: { hosts: asked.hosts, spread: asked.spread },
        refusals: asked.refused.map((host) => ({ host, atMs: 0, message: "refused" })),
      };
      const scheduler = createScheduler();
      for (const host of hosts) scheduler.setHost(host);
      for (const claim of claims) scheduler.setClaim(claim);
      scheduler.pass(0);
      const isPossible = scheduler.hasRoom(
        demand,
        gone.map(({ replica }) => replica),
        0,
      );
      const left = claims.filter((claim) => !gone.includes(claim));
      const plan = planPlacement({ hosts, claims: left, demands: [demand] }, 0);
      expect(isPossible).toBe(plan.placed.length > 0);
      expect(scheduler.pending()).toEqual([]);
      expect(scheduler.pass(0)).toEqual({ placed: [], preempted: [], changed: [] });
      // It still counts all claims.
      scheduler.setDemands("x/own", [demand], 0);
      const all = planPlacement({ hosts, claims, demands: [demand] }, 0);
      expect(scheduler.pass(0).placed).toEqual(all.placed);
    }),
    { numRuns: 2_000 },
  );
});

test("room that a slot ahead in the queue takes does not count", () => {
  const host = (name: string, bytes: number): HostFacts => ({
    name,
    labels: {},
    ready: { status: "True" },
    reachable: { status: "True" },
    isLost: false,
    pressures: [],
    runtimes: ["llamacpp"],
    models: [],
    budget: { known: true, bytes, basis: "test" },
  });
  const demandOf = (service: string, bytes: number, more: Partial<Demand> = {}): Demand => ({
    service,
    ordinal: 0,
    priority: 10_000,
    since: 5,
    mayPreempt: false,
    runtime: "llamacpp",
    memory: { known: true, bytes },
    speeds: {},
    weights: { source: service },
    predecessors: [],
    refusals: [],
    choice: { hosts: [], spread: "Preferred" },
    ...more,
  });
  const hasRoom = (waiting: Demand, own: Partial<Demand> = {}) => {
    const scheduler = createScheduler();
    scheduler.setHost(host("mac-1", 48));
    scheduler.setHost(host("mac-2", 8));
    scheduler.setClaim({ replica: "x/own-0", host: "mac-1", service: "x/own", bytes: 40 });
    scheduler.setDemands(waiting.service, [waiting], 0);
    scheduler.pass(0);
    return scheduler.hasRoom(demandOf("x/own", 40, own), ["x/own-0"], 0);
  };
  const older = { since: 1 };
  expect(hasRoom(demandOf("x/other", 40, older))).toBe(false);
  // Younger, too large all the same, small enough for both, wanted elsewhere only, or less important.
  expect(hasRoom(demandOf("x/other", 40, { since: 9 }))).toBe(true);
  expect(hasRoom(demandOf("x/other", 60, older))).toBe(true);
  expect(hasRoom(demandOf("x/other", 9, older), { memory: { known: true, bytes: 39 } })).toBe(true);
  expect(hasRoom(demandOf("x/other", 40, { ...older, choice: { hosts: ["mac-2"], spread: "None" } }))).toBe(
    true,
  );
  expect(hasRoom(demandOf("x/other", 40, older), { priority: 100_000 })).toBe(true);
});
