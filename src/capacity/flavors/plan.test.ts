/** The choice of a flavor, held to readable YAML, and what holds for any input. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { testGoldens } from "../../../test/golden/golden.ts";
import { type FlavorState, type FlavorsInput, planFlavors } from "./plan.ts";

/** `mac: 2` has room for two replicas; `mac: full`, `unmatched` or `excluded`. Names that start with m are hosts. */
interface ShortInput {
  readonly flavors: Readonly<Record<string, number | "full" | "unmatched" | "excluded">>;
  readonly desired?: number;
  readonly current?: string;
  readonly isServing?: boolean;
  readonly mayLeave?: FlavorsInput["mayLeave"];
}

function full({ flavors, desired = 1, current, isServing = false, mayLeave }: ShortInput): FlavorsInput {
  const stateOf = (name: string, state: ShortInput["flavors"][string]): FlavorState =>
    typeof state === "number"
      ? { at: "room", replicas: state, message: `room on ${name}-1` }
      : { at: state, message: `${name} is ${state}` };
  const judged = Object.entries(flavors).map(([name, state]) => ({
    name,
    on: name.startsWith("m") ? ("Hosts" as const) : ("Pods" as const),
    state: stateOf(name, state),
  }));
  return { flavors: judged, desired, current, isServing, mayLeave };
}

testGoldens(`${import.meta.dirname}/golden`, (input: ShortInput) => planFlavors(full(input)));

const anyState = fc.oneof(
  fc.integer({ min: 1, max: 4 }),
  fc.constantFrom("full" as const, "unmatched" as const, "excluded" as const),
);
const anyInput = fc.record({
  flavors: fc.dictionary(fc.constantFrom("mac", "mini", "l40s", "a10", "t4"), anyState, { minKeys: 1 }),
  desired: fc.integer({ min: 1, max: 4 }),
  current: fc.constantFrom("mac", "l40s", "a10", undefined),
  isServing: fc.boolean(),
});

test("a service that serves with room for all replicas never leaves its flavor unless it may", () => {
  fc.assert(
    fc.property(anyInput, (input) => {
      const { current = "", desired } = input;
      const room = input.flavors[current];
      fc.pre(input.isServing && typeof room === "number" && room >= desired);
      expect(planFlavors(full(input)).taken).toBe(current);
    }),
  );
});

test("every flavor before the one that is taken has a reason, and an excluded one is never taken", () => {
  fc.assert(
    fc.property(anyInput, (input) => {
      const { taken, skipped, available } = planFlavors(full(input));
      const names = Object.keys(input.flavors);
      if (taken !== undefined) expect(input.flavors[taken]).not.toBe("excluded");
      const before = taken === undefined ? names : names.slice(0, names.indexOf(taken));
      expect(skipped.map(({ name }) => name)).toEqual(expect.arrayContaining(before));
      if (available !== undefined) expect(before).toContain(available);
    }),
  );
});
