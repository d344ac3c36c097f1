/** No sequence of observations may break the promises of the state machine; the world itself throws when one is broken. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SERVE } from "./testing/facts.ts";
import { World } from "./testing/world.ts";

type Action = (world: World) => void;

const actions: Record<string, Action> = {
  crash: (world) => world.crash(),
  crashWithChildren: (world) => {
    if (world.engine !== undefined) world.engine.leavesChildren = true;
    world.crash();
  },
  hang: (world) => {
    if (world.engine !== undefined) world.engine.isHung = true;
  },
  unhang: (world) => {
    if (world.engine !== undefined) world.engine.isHung = false;
  },
  stick: (world) => {
    if (world.engine !== undefined) world.engine.isStuck = true;
  },
  unstick: (world) => {
    if (world.engine !== undefined) world.engine.isStuck = false;
  },
  mute: (world) => {
    if (world.engine !== undefined) world.engine.isMute = !world.engine.isMute;
  },
  degrade: (world) => {
    if (world.engine !== undefined) world.engine.isDegraded = true;
  },
  restartAgent: (world) => world.restartAgent(),
  agentEnds: (world) => {
    world.agentEnds ??= "in order";
  },
  agentEndsAtOnce: (world) => {
    if (world.agentEnds !== undefined) world.agentEnds = "at once";
  },
  apiDown: (world) => {
    world.isApiUp = false;
  },
  apiUp: (world) => {
    world.isApiUp = true;
    world.isSliceRead = true;
  },
  list: (world) => {
    if (world.isApiUp) world.isListed = true;
  },
  sliceGone: (world) => {
    world.slice = "missing";
  },
  sliceMade: (world) => {
    if (world.slice === "missing") world.slice = "unwritten";
  },
  withdrawnByController: (world) => {
    if (world.slice === "ready") world.slice = "withdrawn";
  },
  addressLost: (world) => {
    world.hasAddress = false;
  },
  addressBack: (world) => {
    world.hasAddress = true;
  },
  movedBeside: (world) => {
    world.moved = "beside";
  },
  cutOff: (world) => {
    world.moved = "cut off";
  },
  movedBack: (world) => {
    world.moved = "no";
  },
  memoryGone: (world) => {
    world.budget = 10;
  },
  memoryUnknown: (world) => {
    world.budget = "unknown";
  },
  evicted: (world) => {
    world.pressure = { at: "evicted", how: "evict", because: "memory is critical" };
  },
  unloaded: (world) => {
    world.pressure = { at: "evicted", how: "unload", because: "memory is short and it is idle" };
  },
  held: (world) => {
    world.pressure = { at: "held", because: "memory is short" };
  },
  letIn: (world) => {
    world.pressure = { at: "none" };
  },
  memoryBack: (world) => {
    world.budget = 1_000;
  },
  modelMissing: (world) => {
    world.model = "missing";
  },
  modelBroken: (world) => {
    world.model = "broken";
  },
  modelBack: (world) => {
    world.model = "there";
  },
  runtimeMissing: (world) => {
    world.runtime = "missing";
  },
  runtimeBack: (world) => {
    world.runtime = "present";
  },
  busy: (world) => {
    world.isBusy = true;
  },
  idle: (world) => {
    world.isBusy = false;
  },
  shortRequest: (world) => {
    world.tokensTotal += 1;
  },
  stubborn: (world) => {
    world.nextEngine = { ignoresTerm: true };
  },
  neverHealthy: (world) => {
    world.nextEngine = { loadsUntil: Number.POSITIVE_INFINITY };
  },
  leavesChildren: (world) => {
    world.nextEngine = { leavesChildren: true };
  },
  ordinary: (world) => {
    world.nextEngine = {};
  },
  drain: (world) => {
    if (isServe(world)) world.wanted = { ...SERVE, drain: { reason: "Rollout" } };
  },
  drainWithDeadline: (world) => {
    if (isServe(world))
      world.wanted = { ...SERVE, drain: { reason: "Rollout", deadlineAt: world.now + 3_000 } };
  },
  drainWithPastDeadline: (world) => {
    if (isServe(world))
      world.wanted = { ...SERVE, drain: { reason: "Rollout", deadlineAt: world.now - 9_000 } };
  },
  longerDrain: (world) => {
    if (typeof world.wanted !== "string") world.wanted = { ...world.wanted, drainSeconds: 3_600 };
  },
  undrain: (world) => {
    if (typeof world.wanted !== "string" && !world.wanted.isDeleting) world.wanted = SERVE;
  },
  delete: (world) => {
    if (typeof world.wanted !== "string") world.wanted = { ...world.wanted, isDeleting: true };
  },
};

function isServe(world: World): boolean {
  return typeof world.wanted !== "string" && !world.wanted.isDeleting;
}

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
  if (world.agentEnds !== undefined) world.restartAgent();
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
  it("keeps its promises under any sequence of faults and wishes, and recovers", () => {
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

  it("replaces an engine that answers its probes and gets on with nothing, and no idle one", () => {
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

  it("counts afresh in a fresh agent", () => {
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

  it("leaves a busy engine alone whose gauges it cannot read", () => {
    const world = ready();
    Object.assign(world.engine ?? {}, { isStuck: true, isMute: true });
    world.isBusy = true;
    pass(world, 1_000_000);
    expect(world.starts).toBe(1);
  });

  it("lets an engine take four times the longest step that it was seen to take", () => {
    const world = ready();
    world.isBusy = true;
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

  it("ends an engine that nobody wants once a list says so, and not before", () => {
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
