import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { testGoldens } from "../../../../test/golden/golden.ts";
import { type PlacementInput, planPlacement } from "../../testing/plan-placement.ts";
import type { Demand, HostFacts } from "../types.ts";

const GIB = 1024 ** 3;

/** Goldens are written by hand: sizes in GiB, everything usual left out. */
interface ShortInput {
  readonly now?: number;
  readonly hosts: readonly (Partial<HostFacts> & { name: string; gib?: number })[];
  readonly claims?: readonly { replica?: string; service: string; host: string; gib: number }[];
  readonly demands: readonly (Partial<Demand> & { service: string; gib?: number })[];
}

function host({ gib, ...rest }: ShortInput["hosts"][number]): HostFacts {
  return {
    labels: {},
    ready: { status: "True" },
    reachable: { status: "True" },
    isLost: false,
    pressures: [],
    runtimes: ["llamacpp"],
    models: [],
    budget:
      gib === undefined
        ? { known: false, why: "memory not reported" }
        : { known: true, bytes: gib * GIB, basis: "test" },
    ...rest,
  };
}

function demand({ gib, choice, ...rest }: ShortInput["demands"][number]): Demand {
  return {
    ordinal: 0,
    priority: 10_000,
    since: 0,
    runtime: "llamacpp",
    memory: gib === undefined ? { known: false } : { known: true, bytes: gib * GIB },
    speeds: {},
    weights: { source: "hf://org/model" },
    refusals: [],
    predecessors: [],
    ...rest,
    choice: { hosts: [], spread: "Preferred", ...choice },
  };
}

function full(input: ShortInput): PlacementInput {
  const claims = (input.claims ?? []).map(({ gib, ...rest }, index) => ({
    replica: `r${index}`,
    bytes: gib * GIB,
    ...rest,
  }));
  return { hosts: input.hosts.map(host), claims, demands: input.demands.map(demand) };
}

describe("golden", () => {
  testGoldens(`${import.meta.dirname}/golden`, (input: ShortInput) =>
    planPlacement(full(input), input.now ?? 0),
  );
});

const fleets = fc.record({
  hosts: fc.uniqueArray(
    fc.record({ name: fc.constantFrom("a", "b", "c", "d", "e"), gib: fc.integer({ min: 0, max: 64 }) }),
    {
      selector: ({ name }) => name,
    },
  ),
  demands: fc.uniqueArray(
    fc.record({
      service: fc.constantFrom("x/1", "x/2", "x/3"),
      ordinal: fc.integer({ min: 0, max: 5 }),
      gib: fc.integer({ min: 1, max: 40 }),
      priority: fc.constantFrom(100, 10_000, 1_000_000),
    }),
    { maxLength: 12, selector: ({ service, ordinal }) => `${service}/${ordinal}` },
  ),
  claims: fc.array(
    fc.record({
      service: fc.constant("y/1"),
      host: fc.constantFrom("a", "b", "c"),
      gib: fc.integer({ min: 0, max: 30 }),
    }),
  ),
});

describe("of any fleet", () => {
  test("no host is filled over its budget, and every demand gets one answer", () => {
    fc.assert(
      fc.property(fleets, (short) => {
        const input = full(short);
        const { placed, waiting } = planPlacement(input, 0);
        expect(placed.length + waiting.length).toBe(input.demands.length);
        const sizes = new Map(input.demands.map((one) => [one, one.memory.known ? one.memory.bytes : 0]));
        const largest = Math.max(0, ...sizes.values());
        for (const { name, budget } of input.hosts) {
          const before = input.claims
            .filter((claim) => claim.host === name)
            .reduce((sum, { bytes }) => sum + bytes, 0);
          const count = placed.filter((one) => one.host === name).length;
          if (budget.known && before >= budget.bytes) expect(count).toBe(0);
          if (budget.known && count === 1) expect(before).toBeLessThan(budget.bytes + largest);
        }
      }),
    );
  });

  test("the answer does not depend on the order of hosts and demands", () => {
    fc.assert(
      fc.property(fleets, (short) => {
        const input = full(short);
        const turned = { ...input, hosts: [...input.hosts].reverse(), demands: [...input.demands].reverse() };
        expect(planPlacement(turned, 0)).toEqual(planPlacement(input, 0));
      }),
    );
  });
});
