import fc from "fast-check";
import { expect, test } from "vitest";
import { govern, INITIAL_GOVERNOR_STATE } from "./govern.ts";
import { defaultLimits, evictionBackoffMs } from "./limits.ts";
import { type Machine, type MachineEvent, run } from "./testing/machine.ts";
import type { GovernedEngine, GovernedEngineState, GovernorState, PressureReading } from "./types.ts";

const GIB = 2 ** 30;

const engines: Machine["engines"] = [
  { id: "chat", priority: "high", isProtected: false, bytes: 16 * GIB },
  { id: "search", priority: "normal", isProtected: false, bytes: 8 * GIB },
  { id: "nightly", priority: "batch", isProtected: false, bytes: 6 * GIB },
  { id: "summaries", priority: "batch", isProtected: false, bytes: 10 * GIB },
  { id: "alarm", priority: "batch", isProtected: true, bytes: 4 * GIB },
];
const calmMachine: Machine = { totalGiB: 64, foreign: () => 8, engines };

function count(events: readonly MachineEvent[], what: MachineEvent["what"], which?: string): number {
  return events.filter((event) => event.what === what && (which === undefined || event.which === which))
    .length;
}

function ids(events: readonly MachineEvent[], what: MachineEvent["what"]): readonly string[] {
  return events.filter((event) => event.what === what).map(({ which }) => which);
}

test("a memory hog appears and leaves: starts are held, engines evicted one at a time, and restored one at a time", async () => {
  const events = run({ ...calmMachine, foreign: (t) => (t < 60 ? 8 : t < 400 ? 30 : 8) }, 1_800);
  const text = events.map(({ seconds, what, which }) => `${String(seconds).padStart(5)} s  ${what} ${which}`);
  await expect(`${text.join("\n")}\n`).toMatchFileSnapshot("./golden/hog.txt");
  expect(ids(events, "evict")).toEqual(["summaries", "nightly"]);
  expect(ids(events, "back").toSorted()).toEqual(["nightly", "summaries"]);
});

test("a calm machine: nothing happens", () => {
  expect(run(calmMachine, 3_600)).toEqual([]);
});

test("pressure that swings over the threshold for an hour ends each engine four times at most", () => {
  for (const period of [7, 20, 60, 300]) {
    const events = run({ ...calmMachine, foreign: (t) => (t % period < period / 2 ? 17 : 8) }, 3_600);
    for (const { id } of engines)
      expect(count(events, "evict", id), `${id} at ${period} s`).toBeLessThanOrEqual(4);
    expect(count(events, "evict")).toBeGreaterThan(0);
  }
});

test("one false reading holds starts for a while and evicts no engine", () => {
  const lie: Machine["lie"] = (t, honest) => (t === 100 ? { ...honest, pressure: "Critical" } : honest);
  const events = run({ ...calmMachine, lie }, 600);
  expect(events.map(({ what, which }) => `${what} ${which}`)).toEqual([
    "level Critical",
    "level Warning",
    "level Normal",
  ]);
});

test("failed readings change neither the level nor which engines may start, and evict none", () => {
  const failing = (t: number, honest: PressureReading): PressureReading =>
    t < 100 ? honest : { at: honest.at, pressure: "Unknown" };
  const warned: Machine = { ...calmMachine, foreign: (t) => (t < 90 ? 8 : 14) };
  expect(run({ ...warned, lie: failing }, 3_600).map(({ what, which }) => `${what} ${which}`)).toEqual([
    "level Warning",
  ]);
  const once = (t: number, honest: PressureReading): PressureReading =>
    t === 100 ? { at: honest.at, pressure: "Unknown" } : honest;
  expect(run({ ...calmMachine, lie: once }, 600)).toEqual([]);
});

test("a leak in another process evicts all engines that may be evicted, lowest priority first, and no protected one", () => {
  const events = run({ ...calmMachine, foreign: (t) => 8 + t / 10 }, 700);
  expect(ids(events, "evict")).toEqual(["summaries", "nightly", "search", "chat"]);
  const gone = events.filter(({ what }) => what === "gone");
  const evicted = events.filter(({ what }) => what === "evict");
  // Each one is gone, and memory is read twice, before the next.
  for (const [index, { seconds }] of evicted.slice(1).entries()) {
    expect(seconds - (gone[index]?.seconds ?? 0)).toBeGreaterThanOrEqual(
      2 * (defaultLimits.criticalReadMs / 1_000) - 1,
    );
  }
});

test("evictionEnabled: false holds starts and evicts no engine", () => {
  const events = run({ ...calmMachine, foreign: () => 30, mayEvict: false }, 600);
  expect(events.map(({ what, which }) => `${what} ${which}`)).toEqual(["level Critical"]);
});

test("swap that grows is a warning of its own, scarce memory with it makes a warning critical", () => {
  const reading = (at: number, more: Partial<PressureReading>): PressureReading => {
    return {
      at,
      pressure: "Normal",
      totalBytes: 64 * GIB,
      availableBytes: 20 * GIB,
      swapUsedBytes: 0,
      ...more,
    };
  };
  const first = govern(INITIAL_GOVERNOR_STATE, {
    now: 0,
    reading: reading(0, {}),
    engines: [],
    mayEvict: true,
  });
  const grown = { swapUsedBytes: 2 * GIB };
  const swapping = { now: 5_000, reading: reading(5_000, grown), engines: [], mayEvict: true };
  expect(govern(first.state, swapping)).toMatchObject({
    level: "Warning",
    because: "swap grew by 2 GiB within a minute",
    starts: { at: "none" },
  });
  const worse = reading(5_000, { ...grown, pressure: "Warning", availableBytes: GIB });
  expect(govern(first.state, { ...swapping, reading: worse }).level).toBe("Critical");
  const kill = (availableBytes: number) => {
    const killed = { now: 9_000, reading: reading(9_000, { availableBytes }), killedAt: 8_000 };
    return govern(first.state, { ...killed, engines: [], mayEvict: true });
  };
  expect(kill(5 * GIB)).toMatchObject({
    level: "Warning",
    because: "an engine was killed while memory was scarce",
  });
  expect(kill(20 * GIB).level).toBe("Normal");
});

test("an engine that has been idle for long is unloaded while memory is low, one of high priority is not", () => {
  const reading: PressureReading = { at: 700_000, pressure: "Warning" };
  const idle = (id: string, priority: GovernedEngine["priority"]): GovernedEngine => {
    const standing: GovernedEngineState = { at: "running", idleSince: 1_000 };
    return { id, priority, isProtected: false, bytes: GIB, age: 0, evictions: 0, standing };
  };
  const decide = (engine: GovernedEngine) =>
    govern(INITIAL_GOVERNOR_STATE, { now: 700_000, reading, engines: [engine], mayEvict: true });
  expect(decide(idle("a", "normal")).eviction).toMatchObject({ id: "a", how: "unload" });
  expect(decide(idle("a", "high")).eviction).toBeUndefined();
});

test("an evicted engine stays away longer each time", () => {
  expect([1, 2, 3, 4, 5, 99].map((times) => evictionBackoffMs(defaultLimits, times) / 60_000)).toEqual([
    5, 10, 20, 40, 60, 60,
  ]);
});

test("evicted engines return one at a time even after a restart of the agent", () => {
  const away = (id: string): GovernedEngine => {
    const standing: GovernedEngineState = { at: "evicted", since: 0 };
    return { id, priority: "normal", isProtected: false, bytes: GIB, age: 0, evictions: 1, standing };
  };
  const reading: PressureReading = { at: 600_000, pressure: "Normal" };
  const plan = govern(INITIAL_GOVERNOR_STATE, {
    now: 600_000,
    reading,
    engines: [away("a"), away("b")],
    mayEvict: true,
  });
  expect(plan.starts).toMatchObject({ at: "one", id: "a" });
});

const priority = fc.constantFrom("critical", "high", "normal", "low", "batch" as const);
const standing: fc.Arbitrary<GovernedEngineState> = fc.oneof(
  fc.record({ at: fc.constant("running" as const), idleSince: fc.option(fc.nat(1e6), { nil: undefined }) }),
  fc.constantFrom({ at: "starting" }, { at: "ending" }, { at: "waiting" } as const),
  fc.record({ at: fc.constant("evicted" as const), since: fc.nat(1e6) }),
);
const engine: fc.Arbitrary<GovernedEngine> = fc.record({
  id: fc.constantFrom("a", "b", "c", "d"),
  standing,
  priority,
  isProtected: fc.boolean(),
  bytes: fc.nat(64 * GIB),
  age: fc.nat(9),
  evictions: fc.nat(5),
});
const pressure = fc.constantFrom("Normal", "Warning", "Critical", "Unknown" as const);
const amount = fc.option(fc.nat(64 * GIB), { nil: undefined });
const look = fc.record({ pressure, totalBytes: amount, availableBytes: amount, swapUsedBytes: amount });

test("any readings: protected engines stay, one is evicted at a time after two readings, none starts under pressure", () => {
  const steps = fc.array(fc.tuple(look, fc.uniqueArray(engine, { selector: ({ id }) => id })), {
    maxLength: 40,
  });
  fc.assert(
    fc.property(steps, (sequence) => {
      let state: GovernorState = INITIAL_GOVERNOR_STATE;
      let looks = 0;
      for (const [index, [seen, all]] of sequence.entries()) {
        const now = (index + 1) * 5_000;
        const plan = govern(state, { now, reading: { at: now, ...seen }, engines: all, mayEvict: true });
        state = plan.state;
        const isEnding = all.some((one) => one.standing.at === "ending");
        looks = isEnding ? 0 : looks + 1;
        if (plan.level !== "Normal") expect(plan.starts.at).toBe("none");
        expect(plan.readAgainMs).toBeGreaterThan(0);
        if (plan.eviction === undefined) continue;
        const victim = all.find(({ id }) => id === plan.eviction?.id);
        expect(victim?.isProtected).toBe(false);
        expect(["running", "starting"]).toContain(victim?.standing.at);
        expect(isEnding).toBe(false);
        if (plan.eviction.how === "evict") expect(looks).toBeGreaterThanOrEqual(2);
        looks = 0;
      }
    }),
    { numRuns: 500 },
  );
});
