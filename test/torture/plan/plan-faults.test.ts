import fc from "fast-check";
import { expect, test } from "vitest";
import {
  CATALOG,
  DAEMON_FAULTS,
  faultsFor,
  GATEWAY_FAULTS,
  HOSTS,
  NODE_FAULTS,
  SERVICES,
} from "./catalog.ts";
import { FIXED_SEEDS } from "./fixed-seeds.ts";
import { lockOf, type PlannedFault, planFaults } from "./plan-faults.ts";

const LEASE_MS = 40_000;
const kindsOf = (entries: readonly { readonly kind: string }[]) => new Set(entries.map(({ kind }) => kind));
const seeds = fc.integer({ min: 0, max: 2 ** 31 });

test("a seed gives the same schedule each time, another seed another one", () => {
  expect(planFaults(7, 10)).toEqual(planFaults(7, 10));
  expect(planFaults(8, 10)).not.toEqual(planFaults(7, 10));
});

test("more minutes only add rounds, so that a long run repeats a short one first", () => {
  const short = planFaults(7, 3).rounds;
  expect(planFaults(7, 30).rounds.slice(0, short.length - 1)).toEqual(short.slice(0, -1));
});

test("every fault is healed inside its round, and no two that share a lock overlap", () => {
  fc.assert(
    fc.property(seeds, (seed) => {
      for (const { faults, lengthMs } of planFaults(seed, 6).rounds) {
        expect(faults.filter(({ atMs, forMs }) => atMs + forMs > lengthMs)).toEqual([]);
        expect(
          faults.flatMap((one, index) => faults.slice(index + 1).filter((other) => meet(one, other))),
        ).toEqual([]);
      }
    }),
    { numRuns: 50 },
  );
});

function meet(one: PlannedFault, other: PlannedFault): boolean {
  const isApart = one.atMs + one.forMs < other.atMs || other.atMs + other.forMs < one.atMs;
  return lockOf(one) === lockOf(other) && !isApart;
}

test("targets are hosts, services or nothing, as the catalog says", () => {
  for (const { kind, target } of planFaults(3, 60).rounds.flatMap(({ faults }) => faults)) {
    const on = CATALOG.find((entry) => entry.kind === kind)?.on;
    if (on === "host") expect(HOSTS).toContain(target);
    else if (on === "service") expect(SERVICES).toContain(target);
    else expect(target).toBeUndefined();
  }
});

test("an hour draws every kind, and long rounds go past a Lease", () => {
  const rounds = planFaults(1, 60).rounds;
  const faults = rounds.flatMap((round) => round.faults);
  expect(new Set(faults.map(({ kind }) => kind))).toEqual(kindsOf([...CATALOG, ...GATEWAY_FAULTS]));
  expect(Math.max(...faults.map(({ forMs }) => forMs))).toBeGreaterThan(60_000);
});

test("what only shared daemons have is drawn for farms that run them, and for no others", () => {
  const kinds = (engine: "llamacpp" | "ollama") =>
    new Set(planFaults(1, 60, engine).rounds.flatMap(({ faults }) => faults.map(({ kind }) => kind)));
  expect(kinds("ollama")).toEqual(kindsOf([...faultsFor("ollama"), ...GATEWAY_FAULTS]));
  for (const { kind } of DAEMON_FAULTS) expect(kinds("llamacpp")).not.toContain(kind);
});

test("the fixed seed of shared daemons draws what is theirs, and a hung model that outlasts its detection", () => {
  const [own] = FIXED_SEEDS.filter(({ engine }) => engine === "ollama");
  const faults = planFaults(own?.seed ?? 0, own?.minutes ?? 0, "ollama").rounds.flatMap(
    (round) => round.faults,
  );
  const kinds = faults.map(({ kind }) => kind);
  const wanted = ["gate-kill", "agent-kill", "agent-upgrade", "engine-kill", "api-stop", "drain", "recreate"];
  expect(kinds).toEqual(expect.arrayContaining(wanted));
  expect(faults.some(({ kind, forMs }) => kind === "runner-pause" && forMs > LEASE_MS)).toBe(true);
});

test("the fixed seed of nodes draws all that is theirs, and no other farm draws any of it", () => {
  const kinds = FIXED_SEEDS.map(({ seed, minutes, engine, nodes }) => {
    const { rounds } = planFaults(seed, minutes, engine, nodes);
    return new Set<string>(rounds.flatMap(({ faults }) => faults.map(({ kind }) => kind)));
  });
  const own = new Set(NODE_FAULTS.map(({ kind }) => kind));
  const drawn = kinds.map((all) => [...own].filter((kind) => all.has(kind)).length);
  expect(drawn).toEqual(FIXED_SEEDS.map(({ nodes }) => (nodes > 0 ? own.size : 0)));
});

test("the fixed seeds draw every kind together, and some that outlast a Lease", () => {
  const ours = FIXED_SEEDS.filter(({ engine, nodes }) => engine === "llamacpp" && nodes === 0);
  const faults = ours.flatMap(({ seed, minutes }) =>
    planFaults(seed, minutes).rounds.flatMap((round) => round.faults),
  );
  expect(new Set(faults.map(({ kind }) => kind))).toEqual(kindsOf([...CATALOG, ...GATEWAY_FAULTS]));
  const outlasting = faults.filter(({ forMs }) => forMs > LEASE_MS).map(({ kind }) => kind);
  expect(outlasting).toContain("lease-expiry");
  expect(outlasting).toContain("engine-pause");
});

test("each fixed seed draws every fault of the gateway", () => {
  for (const { seed, minutes, engine, nodes } of FIXED_SEEDS) {
    const { rounds } = planFaults(seed, minutes, engine, nodes);
    const kinds = rounds.flatMap(({ faults }) => faults.map(({ kind }) => kind));
    expect(kinds).toEqual(expect.arrayContaining([...kindsOf(GATEWAY_FAULTS)]));
  }
});
