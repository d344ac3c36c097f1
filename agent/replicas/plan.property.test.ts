/** No sequence of observations may break the promises of the state machine; the world itself throws when one is broken. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { actions, isServe } from "./testing/actions.ts";
import { SERVE } from "./testing/facts.ts";
import { World } from "./testing/world.ts";

const step = fc.tuple(
  fc.constantFrom(...Object.keys(actions)),
  fc.constantFrom(0, 1, 30, 250, 300, 1_000, 5_000, 30_000, 70_000, 400_000, 700_000),
);

/** Lets time pass the way the queue does: no longer than the plan asked for, and with looks in between as events bring them. */
function pass(world: World, forMs: number): void {
  const until = world.now + forMs;
  for (let looks = 0; looks < 20_000; looks++) {
    const { recheckAfterMs } = world.settle();
    const share = looks % 3 === 0 ? 0.4 : 1;
    const next = recheckAfterMs === undefined ? until : world.now + recheckAfterMs * share;
    if (next >= until) break;
    world.now = next;
  }
  world.now = until;
  world.settle();
}

function heal(world: World): void {
  if (world.agentStop !== undefined) world.restartAgent();
  Object.assign(world, {
    isApiUp: true,
    isListed: true,
    isSliceRead: true,
    hasAddress: true,
    moved: "no",
    budget: 1_000,
    pressure: { at: "none" },
    model: "there",
    runtime: "present",
    isBusy: false,
    nextEngine: {},
  });
  if (world.slice === "missing") world.slice = "unwritten";
  if (world.weights % 2 === 0) world.weights += 1;
  if (world.engine !== undefined) {
    Object.assign(world.engine, { isHung: false, isStuck: false, isDegraded: false });
  }
}

function ready(): World {
  const world = new World();
  pass(world, 10_000);
  expect(world.settle().phase).toBe("Ready");
  return world;
}

describe("the state machine of a replica", () => {
  // Seconds of CPU, which a machine with other work to do may take long to give.
  it("keeps its invariants under any sequence of faults and requests, and recovers", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40, size: "max" }), (steps) => {
        const world = new World();
        for (const [name, ms] of steps) {
          actions[name]?.(world);
          pass(world, ms);
        }
        heal(world);
        if (isServe(world)) {
          world.wanted = SERVE;
          pass(world, 1_000_000);
          expect(world.settle().phase).toBe("Ready");
          world.wanted = { ...SERVE, isDeleting: true };
        }
        pass(world, 1_000_000);
        expect(world.settle()).toMatchObject({ phase: "Stopped", reason: "Deleted", steps: [] });
        expect(world.engine).toBeUndefined();
      }),
      { numRuns: 2_000 },
    );
  });

  it("replaces an engine that answers its probes but makes no progress, and never an idle one", () => {
    const world = ready();
    Object.assign(world.engine ?? {}, { isStuck: true });
    pass(world, 1_000_000);
    expect(world.starts).toBe(1);
    world.isBusy = true;
    pass(world, 100_000);
    expect(world.starts).toBe(1);
    pass(world, 60_000);
    expect(world.starts).toBe(2);
    pass(world, 1_000_000);
    expect(world).toMatchObject({ starts: 2, slice: "ready" });
  });

  it("restarts its count in a restarted agent", () => {
    const world = ready();
    Object.assign(world.engine ?? {}, { isStuck: true });
    world.isBusy = true;
    pass(world, 100_000);
    world.restartAgent();
    world.isListed = true;
    pass(world, 100_000);
    expect(world.starts).toBe(1);
    pass(world, 60_000);
    expect(world.starts).toBe(2);
  });

  it("does not kill a busy engine that does not report its gauges", () => {
    const world = ready();
    Object.assign(world.engine ?? {}, { isStuck: true, isMute: true });
    world.isBusy = true;
    pass(world, 1_000_000);
    expect(world.starts).toBe(1);
  });

  it.each([
    ["its counters do not move", {}],
    ["the question for its gauges stays open", { isTellingBetweenSteps: true }],
  ])("lets an engine take four times the longest step that it was seen to take, while %s", (_, how) => {
    const world = ready();
    world.isBusy = true;
    Object.assign(world.engine ?? {}, how);
    pass(world, 10_000);
    Object.assign(world.engine ?? {}, { isStuck: true });
    pass(world, 100_000);
    Object.assign(world.engine ?? {}, { isStuck: false });
    pass(world, 10_000);
    Object.assign(world.engine ?? {}, { isStuck: true });
    pass(world, 380_000);
    expect(world.starts).toBe(1);
    pass(world, 60_000);
    expect(world.starts).toBe(2);
  });

  it("replaces an engine whose log shows errors when a request fails too, and only then", () => {
    const world = ready();
    Object.assign(world.engine ?? {}, { isDegraded: true });
    pass(world, 10_000);
    expect(world).toMatchObject({ starts: 2, slice: "ready" });
  });

  it("tries weights that no engine can load only once, and replaced weights within half a minute", () => {
    const world = new World();
    world.weights = 2;
    pass(world, 1_000_000);
    expect(world.settle().phase).toBe("Failed");
    world.restartAgent();
    world.isListed = true;
    pass(world, 1_000_000);
    expect(world.starts).toBe(1);
    world.weights = 4;
    pass(world, 40_000);
    expect(world.starts).toBe(2);
    world.weights = 5;
    pass(world, 40_000);
    expect(world).toMatchObject({ starts: 3, slice: "ready" });
  });

  it("does not announce a withdrawn engine again before it has answered", () => {
    for (const name of ["restartAgent", "wake"]) {
      const world = ready();
      actions[name]?.(world);
      Object.assign(world, { slice: "withdrawn", isListed: true });
      world.settle();
      expect(world.slice).toBe("ready");
      actions[name]?.(world);
      Object.assign(world, { slice: "withdrawn", isListed: true });
      Object.assign(world.engine ?? {}, { isHung: true });
      pass(world, 1_900);
      expect(world.slice).toBe("withdrawn");
      pass(world, 60_000);
      expect(world).toMatchObject({ starts: 2, slice: "ready" });
    }
  });

  it("gives requests that arrived during an outage of the API server their full drain time, and no more", () => {
    const world = ready();
    Object.assign(world, { isBusy: true, isApiUp: false, wanted: { ...SERVE, isDeleting: true } });
    pass(world, 100_000);
    world.isApiUp = true;
    pass(world, 31_000);
    expect(world.engine?.hasEnded).toBe(false);
    pass(world, 3_000);
    expect(world.engine).toBeUndefined();
  });

  it("continues to count the drain time after a restart of the agent", () => {
    const world = ready();
    Object.assign(world, { isBusy: true, isApiUp: false, wanted: { ...SERVE, isDeleting: true } });
    pass(world, 100_000);
    world.isApiUp = true;
    for (let restarts = 0; restarts < 6; restarts += 1) {
      pass(world, 5_000);
      expect(world.engine?.hasEnded).toBe(false);
      world.restartAgent();
      world.isListed = true;
    }
    pass(world, 5_000);
    expect(world.engine).toBeUndefined();
  });

  it("gives requests no time beyond a given deadline, or while memory is critical", () => {
    for (const name of ["drainWithDeadline", "evicted"]) {
      const world = ready();
      Object.assign(world, { isBusy: true, isApiUp: false });
      actions[name]?.(world);
      pass(world, 2_500);
      world.isApiUp = true;
      pass(world, 3_500);
      expect(world.engine).toBeUndefined();
    }
  });

  it("stops an engine without a replica once a list shows that, and not before", () => {
    const world = new World();
    pass(world, 10_000);
    world.wanted = "unknown";
    pass(world, 1_000_000);
    expect(world.engine?.hasEnded).toBe(false);
    world.wanted = "absent";
    pass(world, 100_000);
    expect(world.engine).toBeUndefined();
  });
});
