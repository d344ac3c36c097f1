/** Rollouts of simulated services: whatever is changed, and in whatever order replicas get on. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Pass, type Settings, World } from "./testing/world.ts";

const settings = fc
  .record({
    maxSurge: fc.integer({ min: 0, max: 2 }),
    maxUnavailable: fc.integer({ min: 0, max: 2 }),
    rooms: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }),
  })
  .filter(({ maxSurge, maxUnavailable }) => maxSurge > 0 || maxUnavailable > 0);

type Event =
  | { readonly do: "roll"; readonly to: string }
  | { readonly do: "scale"; readonly desired: number }
  | { readonly do: "drain"; readonly host: number }
  | { readonly do: "undrain"; readonly host: number }
  | { readonly do: "progress"; readonly dice: number }
  | { readonly do: "trip"; readonly dice: number }
  | { readonly do: "lose"; readonly dice: number };

const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("progress" as const), dice: fc.nat(50) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("roll" as const),
      to: fc.constantFrom("good-0", "good-1", "good-2", "bad-1", "bad-2"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc.record({ do: fc.constant("trip" as const), dice: fc.nat(50) }),
      fc.record({ do: fc.constant("lose" as const), dice: fc.nat(50) }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("scale" as const), desired: fc.integer({ min: 0, max: 5 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc.record({ do: fc.constant("drain" as const), host: fc.integer({ min: 0, max: 3 }) }),
      fc.record({ do: fc.constant("undrain" as const), host: fc.integer({ min: 0, max: 3 }) }),
    ),
  },
);

function happen(world: World, one: Event): void {
  if (one.do === "roll") world.revision = one.to;
  else if (one.do === "scale") world.desired = one.desired;
  else if (one.do === "drain") world.draining.add(`mac-${one.host}`);
  else if (one.do === "undrain") world.draining.delete(`mac-${one.host}`);
  else if (one.do === "progress") world.progress(one.dice);
  else world.trip(one.dice, one.do === "lose");
}

/** A pass takes no more away than is allowed, and makes no more. */
function checkPass(world: World, { maxSurge, maxUnavailable }: Settings, pass: Pass): void {
  const { desired } = world;
  expect(pass.readyAfter).toBeGreaterThanOrEqual(Math.min(pass.readyBefore, desired - maxUnavailable));
  // A drain may have one more; failing replicas do not use that up, as they are not serving.
  const mostForDrain = world.draining.size > 0 ? Math.max(1, maxSurge) + 2 * pass.failingBefore : maxSurge;
  expect(pass.liveAfter).toBeLessThanOrEqual(Math.max(pass.liveBefore, desired + mostForDrain));
}

/** Until nothing moves any more. */
function settle(world: World, limits: Settings, dice: readonly number[] = [0]): void {
  for (let round = 0; round < 400; round += 1) {
    const pass = world.pass();
    checkPass(world, limits, pass);
    const hasMoved = world.progress(dice[round % dice.length] ?? 0);
    if (!hasMoved && pass.plan.removals.length === 0 && pass.liveAfter === pass.liveBefore) return;
  }
  throw new Error("nothing settles");
}

function isComplete(world: World): boolean {
  const live = world.live();
  return (
    live.length === world.desired &&
    live.every(({ state, revision }) => state === "ready" && revision === world.revision) &&
    world.readySlots() === world.desired
  );
}

const events = fc.array(event, { maxLength: 60 });
const dice = fc.array(fc.nat(50), { minLength: 1, maxLength: 12 });

test("every pass respects maxUnavailable and maxSurge, and the rollout always settles", () => {
  fc.assert(
    fc.property(settings, events, dice, (limits, all, order) => {
      const world = new World(limits);
      for (const one of all) {
        happen(world, one);
        checkPass(world, limits, world.pass());
      }
      settle(world, limits, order);
    }),
    { numRuns: 1_000 },
  );
});

const drainBesideFailing: Event[] = [
  { do: "scale", desired: 5 },
  { do: "progress", dice: 37 },
  { do: "roll", to: "bad-1" },
  { do: "progress", dice: 0 },
  { do: "progress", dice: 23 },
  { do: "drain", host: 2 },
];

test("with room, every service reaches the newest working revision from any state", () => {
  fc.assert(
    fc.property(settings, events, dice, fc.integer({ min: 1, max: 5 }), (limits, all, order, desired) => {
      const roomy = { ...limits, rooms: [20, 20, 20] };
      const world = new World(roomy);
      for (const one of all) {
        happen(world, one);
        checkPass(world, roomy, world.pass());
      }
      happen(world, { do: "undrain", host: 0 });
      world.desired = desired;
      world.revision = "good-9";
      settle(world, roomy, order);
      expect(isComplete(world)).toBe(true);
      for (const { host } of world.live()) expect([...world.draining]).not.toContain(host);
    }),
    {
      numRuns: 1_000,
      // A replica that starts counts during a drain, also beside one that fails.
      examples: [[{ maxSurge: 1, maxUnavailable: 0, rooms: [1] }, drainBesideFailing, [0], 1]],
    },
  );
});

test("without room for another replica, maxUnavailable is enough to reach the new revision", () => {
  const full = fc.record({ maxSurge: fc.integer({ min: 0, max: 2 }), maxUnavailable: fc.constantFrom(1, 2) });
  fc.assert(
    fc.property(full, dice, fc.integer({ min: 1, max: 4 }), (limits, order, desired) => {
      const tight = { ...limits, rooms: Array.from({ length: desired }, () => 1) };
      const world = new World(tight);
      world.desired = desired;
      settle(world, tight, order);
      world.revision = "good-1";
      settle(world, tight, order);
      expect(isComplete(world)).toBe(true);
    }),
  );
});

/** With room for everything, and a rollout that stopped at its new revision. */
function stopped(limits: Settings, order: readonly number[], desired: number) {
  const roomy = { ...limits, rooms: [20, 20] };
  const world = new World(roomy);
  world.desired = desired;
  settle(world, roomy, order);
  world.revision = "bad-1";
  settle(world, roomy, order);
  return { world, roomy };
}

test("the old revision keeps serving while a new one fails, until the spec is corrected or rolled back", () => {
  const wayOut = fc.constantFrom("good-0", "good-1");
  fc.assert(
    fc.property(settings, dice, fc.integer({ min: 1, max: 5 }), wayOut, (limits, order, desired, next) => {
      const { world, roomy } = stopped(limits, order, desired);
      const lost = roomy.maxSurge > 0 ? 0 : roomy.maxUnavailable;
      expect(world.readySlots()).toBeGreaterThanOrEqual(desired - lost);
      expect(world.pass().plan.state.stoppedBy).toBe("fails");
      // Scaled up meanwhile: with the revision that works.
      world.desired = desired + 1;
      settle(world, roomy, order);
      expect(world.readySlots()).toBeGreaterThanOrEqual(desired + 1 - lost);
      world.revision = next;
      settle(world, roomy, order);
      expect(isComplete(world)).toBe(true);
    }),
  );
});

test("a drain empties its host while a new revision fails, and every serving slot keeps serving", () => {
  const host = fc.integer({ min: 0, max: 1 });
  fc.assert(
    fc.property(settings, dice, fc.integer({ min: 1, max: 5 }), host, (limits, order, desired, drained) => {
      const { world, roomy } = stopped(limits, order, desired);
      const serving = world.readySlots();
      happen(world, { do: "drain", host: drained });
      settle(world, roomy, order);
      expect(world.live().filter((one) => one.host === `mac-${drained}`)).toEqual([]);
      expect(world.readySlots()).toBe(serving);
      expect(world.pass().plan.state.stoppedBy).toBe("fails");
    }),
  );
});

test("replicas that are lost while a new revision fails are recreated from the old one, and hosts can still be drained", () => {
  const losses = fc.array(fc.nat(50), { minLength: 1, maxLength: 4 });
  const host = fc.integer({ min: 0, max: 1 });
  const desiredCount = fc.integer({ min: 1, max: 5 });
  fc.assert(
    fc.property(settings, dice, desiredCount, losses, host, (limits, order, desired, lost, drained) => {
      const { world, roomy } = stopped(limits, order, desired);
      const serving = world.readySlots();
      for (const one of lost) world.trip(one, true);
      settle(world, roomy, order);
      expect(world.readySlots()).toBe(serving);
      for (const one of lost) world.trip(one, true);
      happen(world, { do: "drain", host: drained });
      settle(world, roomy, order);
      expect(world.live().filter((one) => one.host === `mac-${drained}`)).toEqual([]);
      expect(world.readySlots()).toBe(serving);
      expect(world.pass().plan.state.stoppedBy).toBe("fails");
    }),
  );
});

test("a serving replica is not stopped because it was briefly down, unless maxUnavailable allows it", () => {
  const roomy = fc.constantFrom([1, 1, 1], [2, 2], [20, 20]);
  const passes = fc.integer({ min: 0, max: 4 });
  fc.assert(
    fc.property(roomy, dice, fc.integer({ min: 1, max: 3 }), passes, (rooms, order, desired, before) => {
      const limits = { maxSurge: 1, maxUnavailable: 0, rooms };
      const world = new World(limits);
      world.desired = desired;
      settle(world, limits, order);
      world.revision = "good-1";
      for (let count = 0; count < before; count += 1) {
        checkPass(world, limits, world.pass());
        world.progress(order[count % order.length] ?? 0);
      }
      const old = world.live().filter(({ revision }) => revision === "good-0");
      world.trip(order[0] ?? 0, false);
      world.pass();
      const [live, readyOrdinals] = [world.live(), readyOrdinalsOf(world)];
      for (const one of old) if (!readyOrdinals.has(one.ordinal)) expect(live).toContain(one);
    }),
  );
});

test("a failing replica that is Ready for a moment undoes nothing", () => {
  const desiredCount = fc.integer({ min: 1, max: 5 });
  const rounds = fc.array(fc.boolean(), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(settings, dice, desiredCount, rounds, (limits, order, desired, losses) => {
      const { world, roomy } = stopped(limits, order, desired);
      const serving = world.readySlots();
      for (const isLost of losses) {
        if (isLost) world.trip(order[0] ?? 0, true);
        world.flicker(true);
        checkPass(world, roomy, world.pass());
        world.progress(order[0] ?? 0);
        world.flicker(false);
        checkPass(world, roomy, world.pass());
      }
      settle(world, roomy, order);
      expect(world.readySlots()).toBe(serving);
      expect(world.pass().plan.state.stoppedBy).toBe("fails");
    }),
  );
});

function readyOrdinalsOf(world: World): ReadonlySet<number> {
  return new Set(
    world
      .live()
      .filter(({ state }) => state === "ready")
      .map(({ ordinal }) => ordinal),
  );
}
