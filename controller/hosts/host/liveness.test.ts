import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type HostSign, judgeSingleHost, planLiveness, SILENCE_MS } from "./liveness.ts";

const host = (name: string, sign: Partial<HostSign> = {}): HostSign => ({
  name,
  reachable: "True",
  isLost: false,
  hasHolder: true,
  lastChangeMs: 0,
  ...sign,
});

const at = (hosts: readonly HostSign[], now: number, countedFromMs = 0) => {
  const { verdicts } = planLiveness({ hosts, countedFromMs }, now);
  return Object.fromEntries([...verdicts].map(([name, verdict]) => [name, verdict.at]));
};

describe("one host", () => {
  test("a host is reachable within 40 s of its last observed change, and unreachable afterwards", () => {
    expect(at([host("a")], SILENCE_MS - 1)).toEqual({ a: "reachable" });
    expect(at([host("a")], SILENCE_MS)).toEqual({ a: "unreachable" });
  });

  test("the silence of a host that was reachable before a start counts from the start", () => {
    const unseen = host("a", { lastChangeMs: undefined });
    expect(at([unseen], SILENCE_MS + 4_999, 5_000)).toEqual({ a: "counting" });
    expect(at([unseen], SILENCE_MS + 5_000, 5_000)).toEqual({ a: "unreachable" });
  });

  test("the silence of a host restarts after an interruption of the watch", () => {
    expect(at([host("a")], SILENCE_MS + 10, 30_000)).toEqual({ a: "counting" });
  });

  test("a host without a renewal and without a verdict was never seen", () => {
    const unseen = host("a", { lastChangeMs: undefined, reachable: undefined });
    expect(at([unseen], 10 * SILENCE_MS)).toEqual({ a: "neverSeen" });
  });

  test("a host is lost after the shortest limit of its replicas, and stays lost until it renews", () => {
    const silent = host("a", { reachable: "False", lostAfterMs: 60_000 });
    expect(at([silent], 59_999)).toEqual({ a: "unreachable" });
    expect(at([silent], 60_000)).toEqual({ a: "lost" });
    expect(at([{ ...silent, isLost: true, lostAfterMs: undefined }], 60_001)).toEqual({ a: "lost" });
    expect(at([{ ...silent, isLost: true, lastChangeMs: 60_000 }], 60_001)).toEqual({ a: "reachable" });
  });
});

describe("mass expiry", () => {
  test("more than half, and more than two, hosts that fall silent within one window are a mass expiry", () => {
    const alive = [host("d", { lastChangeMs: 45_000 }), host("e", { lastChangeMs: 45_000 })];
    expect(at([host("a"), host("b"), host("c"), ...alive], 50_000)).toEqual({
      a: "massExpiry",
      b: "massExpiry",
      c: "massExpiry",
      d: "reachable",
      e: "reachable",
    });
  });

  test("two of two hosts are no mass expiry", () => {
    expect(at([host("a"), host("b")], SILENCE_MS)).toEqual({ a: "unreachable", b: "unreachable" });
  });

  test("a mass expiry includes hosts that became unreachable a moment ago", () => {
    const gone = [host("a", { reachable: "False" }), host("b", { reachable: "False", lastChangeMs: 5_000 })];
    const hosts = [...gone, host("c", { lastChangeMs: 10_000 }), host("d", { lastChangeMs: 50_000 })];
    expect(at(hosts, 51_000)).toMatchObject({ c: "massExpiry" });
  });

  test("a mass expiry protects the hosts that return last until their agents have had time to renew", () => {
    const absence = { fromMs: 0, toMs: 95_000 };
    const back = (lastChangeMs: number) =>
      ["a", "b", "c"].map((name) => host(name, { lastChangeMs, absence }));
    const late = ["d", "e"].map((name) => host(name, { reachable: "Unknown" }));
    expect(at([...back(95_000), ...late], 100_000)).toMatchObject({ a: "reachable", d: "massExpiry" });
    expect(at([...back(105_000), ...late], 124_999)).toMatchObject({ d: "massExpiry", e: "massExpiry" });
    expect(at([...back(115_000), ...late], 125_000)).toMatchObject({ d: "unreachable", e: "unreachable" });
  });

  test("a mass expiry does not protect a single host that fails later", () => {
    const held = ["a", "b", "c"].map((name) => host(name, { reachable: "Unknown" }));
    const hosts = [...held, host("d", { lastChangeMs: 200_000 }), host("e", { lastChangeMs: 299_000 })];
    expect(at(hosts, 300_000)).toMatchObject({ a: "massExpiry", d: "unreachable", e: "reachable" });
  });

  const silent = (count: number, prefix: string, sign: Partial<HostSign> = {}) =>
    Array.from({ length: count }, (_, index) => host(`${prefix}${index}`, sign));
  const off = { reachable: "False", lastChangeMs: 0 } as const;
  test.each<[string, readonly HostSign[], Record<string, string>]>([
    [
      "three of six are not more than half",
      [...silent(3, "a", { lastChangeMs: 160_000 }), ...silent(3, "b", { lastChangeMs: 190_000 })],
      { a0: "unreachable", b0: "reachable" },
    ],
    [
      "hosts that have been off for long do not count",
      [...silent(3, "a", { lastChangeMs: 160_000 }), ...silent(9, "b", off)],
      { a0: "massExpiry", b0: "unreachable" },
    ],
    [
      "one that was written off less than 40 s ago counts",
      [...silent(2, "a", { lastChangeMs: 140_000 }), host("b", { ...off, lastChangeMs: 120_001 })],
      { a0: "massExpiry", b: "unreachable" },
    ],
    [
      "one that was written off 40 s ago does not",
      [...silent(2, "a", { lastChangeMs: 140_000 }), host("b", { ...off, lastChangeMs: 120_000 })],
      { a0: "unreachable", b: "unreachable" },
    ],
    [
      "hosts that were never seen do not count",
      [
        ...silent(3, "a", { lastChangeMs: 160_000 }),
        ...silent(3, "b", { lastChangeMs: undefined, reachable: undefined }),
        ...silent(3, "c", { lastChangeMs: 150_000, hasHolder: false }),
      ],
      { a0: "massExpiry", b0: "neverSeen", c0: "neverSeen" },
    ],
    [
      "hosts that were held before a new leader came count",
      silent(3, "a", { lastChangeMs: undefined, reachable: "Unknown" }),
      { a0: "massExpiry" },
    ],
    [
      "those that expire 40 s apart expired together",
      [
        host("a", { reachable: "Unknown", lastChangeMs: 100_000 }),
        ...silent(2, "b", { lastChangeMs: 140_000 }),
      ],
      { a: "massExpiry", b0: "massExpiry" },
    ],
    [
      "those that expire longer apart did not",
      [
        host("a", { reachable: "Unknown", lastChangeMs: 99_999 }),
        ...silent(2, "b", { lastChangeMs: 140_000 }),
      ],
      { a: "unreachable", b0: "unreachable" },
    ],
    [
      "one that expired long before the others is judged alone",
      [
        host("a", { reachable: "Unknown", lastChangeMs: 99_999 }),
        ...silent(3, "b", { lastChangeMs: 140_000 }),
      ],
      { a: "unreachable", b0: "massExpiry" },
    ],
  ])("%s", (_, hosts, expected) => {
    expect(at(hosts, 200_000)).toMatchObject(expected);
  });

  test("a mass expiry ignores hosts that have long been unreachable", () => {
    const off = ["a", "b", "c", "d"].map((name) => host(name, { reachable: "False" }));
    const hosts = [...off, host("e", { lastChangeMs: 500_000 }), host("f", { lastChangeMs: 560_000 })];
    expect(at(hosts, 561_000)).toMatchObject({ e: "unreachable", f: "reachable" });
  });
});

describe("a host that an operator declared lost", () => {
  const declared = (sign: Partial<HostSign> = {}) => host("a", { isDeclaredLost: true, ...sign });

  test("a host that was declared lost is lost once its Lease has expired, not before", () => {
    expect(at([declared()], SILENCE_MS - 1)).toEqual({ a: "reachable" });
    expect(at([declared()], SILENCE_MS)).toEqual({ a: "lost" });
    expect(at([declared({ reachable: "False" })], SILENCE_MS)).toEqual({ a: "lost" });
  });

  test("a host that was declared lost is lost in a mass expiry too, while the other hosts stay protected", () => {
    const hosts = [declared(), ...["b", "c", "d"].map((name) => host(name))];
    expect(at(hosts, SILENCE_MS)).toMatchObject({ a: "lost", b: "massExpiry", c: "massExpiry" });
  });

  test("the silence of a host that was declared lost restarts with a new controller", () => {
    const unseen = declared({ lastChangeMs: undefined, reachable: "False" });
    expect(at([unseen], 1_000 + SILENCE_MS - 1, 1_000)).toEqual({ a: "unreachable" });
    expect(at([unseen], 1_000 + SILENCE_MS, 1_000)).toEqual({ a: "lost" });
  });

  test("a host that was declared lost by force is lost immediately, whatever it renews, and stays lost", () => {
    const forced = host("a", { isForcedLost: true });
    const { verdicts } = planLiveness({ hosts: [forced], countedFromMs: 0 }, 0);
    expect(verdicts.get("a")).toEqual({ at: "lost", silentMs: 0, isDeclared: true, isForced: true });
    expect(at([{ ...forced, lastChangeMs: undefined, reachable: undefined, hasHolder: false }], 0)).toEqual({
      a: "lost",
    });
  });

  test("a host that was declared lost is rechecked when its Lease would expire, although its agent was never seen", () => {
    const unseen = declared({ lastChangeMs: undefined, reachable: undefined });
    const { verdicts, recheckAfterMs } = planLiveness({ hosts: [unseen], countedFromMs: 0 }, 10_000);
    expect([verdicts.get("a")?.at, recheckAfterMs]).toEqual(["neverSeen", 30_000]);
    expect(at([unseen], SILENCE_MS)).toEqual({ a: "lost" });
  });
});

describe("time alone changes the verdict", () => {
  const silent = { reachable: "False", lastChangeMs: 10_000 } as const;
  test.each<[string, Partial<HostSign>, number, string, number | undefined]>([
    ["a reachable host expires", { lastChangeMs: 12_000 }, 30_000, "reachable", 22_000],
    ["at the latest moment", { lastChangeMs: 0 }, SILENCE_MS - 1, "reachable", 1],
    ["a counted one too", { lastChangeMs: undefined }, 30_000, "counting", 10_000],
    [
      "an unreachable host is lost after its replicas' limit",
      { ...silent, lostAfterMs: 90_000 },
      60_000,
      "unreachable",
      40_000,
    ],
    ["without replicas after five minutes", silent, 60_000, "unreachable", 250_000],
    ["a lost one stays lost", { ...silent, isLost: true }, 60_000, "lost", undefined],
    [
      "a host that has not joined may take any time",
      { hasHolder: false, reachable: undefined, lastChangeMs: undefined },
      60_000,
      "neverSeen",
      undefined,
    ],
    [
      "but what runs there is",
      { hasHolder: false, reachable: undefined, lastChangeMs: undefined, lostAfterMs: 90_000 },
      60_000,
      "neverSeen",
      30_000,
    ],
    [
      "the earlier of both limits counts",
      { reachable: undefined, lastChangeMs: undefined, lostAfterMs: 90_000, isDeclaredLost: true },
      30_000,
      "neverSeen",
      10_000,
    ],
    [
      "and a limit that has expired is lost",
      { reachable: undefined, lastChangeMs: undefined, lostAfterMs: 60_000 },
      60_000,
      "lost",
      undefined,
    ],
  ])("%s", (_, sign, now, verdict, recheckAfterMs) => {
    const plan = planLiveness({ hosts: [host("a", sign)], countedFromMs: 0 }, now);
    expect([plan.verdicts.get("a")?.at, plan.recheckAfterMs]).toEqual([verdict, recheckAfterMs]);
  });

  test("the silence of a reachable host whose watch was interrupted counts from its last change", () => {
    const seen = host("a", { lastChangeMs: 10_000 });
    expect(planLiveness({ hosts: [seen], countedFromMs: 20_000 }, 30_000).recheckAfterMs).toBe(20_000);
  });

  test("the next check is the earliest of all hosts, and a mass expiry is checked again after the duration of a Lease", () => {
    const alive = [host("a", { lastChangeMs: 20_000 }), host("b", { lastChangeMs: 10_000 })];
    expect(planLiveness({ hosts: alive, countedFromMs: 0 }, 30_000).recheckAfterMs).toBe(20_000);
    const gone = ["a", "b", "c"].map((name) => host(name));
    expect(planLiveness({ hosts: gone, countedFromMs: 0 }, SILENCE_MS).recheckAfterMs).toBe(SILENCE_MS);
  });

  test("the verdict includes the silence of the host", () => {
    const { verdicts } = planLiveness({ hosts: [host("a", silent)], countedFromMs: 0 }, 60_000);
    expect(verdicts.get("a")).toEqual({ at: "unreachable", silentMs: 50_000 });
    const declared = host("a", { ...silent, isDeclaredLost: true });
    expect(planLiveness({ hosts: [declared], countedFromMs: 0 }, 60_000).verdicts.get("a")).toEqual({
      at: "lost",
      silentMs: 50_000,
      isDeclared: true,
    });
  });
});

const times = fc.integer({ min: 0, max: 400_000 });
const anyHost = fc.record({
  hasHolder: fc.boolean(),
  lastChangeMs: fc.option(times, { nil: undefined }),
  reachable: fc.constantFrom("True" as const, "False" as const, "Unknown" as const, undefined),
  absence: fc.option(
    fc.tuple(times, times).map(([from, to]) => ({ fromMs: Math.min(from, to), toMs: Math.max(from, to) })),
    { nil: undefined },
  ),
  isLost: fc.boolean(),
  lostAfterMs: fc.option(fc.integer({ min: 1_000, max: 300_000 }), { nil: undefined }),
});
const fleets = fc
  .array(anyHost, { maxLength: 12 })
  .map((signs) => signs.map((sign, i) => host(`h${i}`, sign)));

describe("of any fleet", () => {
  test("no reachable host is withdrawn within 40 s of a change, a start or an interruption", () => {
    fc.assert(
      fc.property(fleets, times, times, (hosts, countedFromMs, now) => {
        const { verdicts } = planLiveness({ hosts, countedFromMs }, now);
        for (const { name, lastChangeMs, reachable, hasHolder, lostAfterMs } of hosts) {
          const isAwaited = !hasHolder && lostAfterMs === undefined;
          const quietMs = now - Math.max(lastChangeMs ?? 0, countedFromMs);
          const verdict = verdicts.get(name)?.at;
          if (reachable === "True" && quietMs < SILENCE_MS)
            expect(isAwaited ? ["neverSeen"] : ["reachable", "counting"]).toContain(verdict);
        }
      }),
    );
  });

  test("one judgement never withdraws more than two hosts that are also more than half of those that count", () => {
    fc.assert(
      fc.property(fleets, times, (hosts, now) => {
        const joined = { reachable: "True" as const, isLost: false, hasHolder: true };
        const seen = hosts.map((one) => ({ ...one, ...joined }));
        const { verdicts } = planLiveness({ hosts: seen, countedFromMs: now - SILENCE_MS }, now);
        const withdrawn = [...verdicts.values()].filter(({ at: word }) => word === "unreachable").length;
        expect(withdrawn <= 2 || withdrawn * 2 <= seen.length).toBe(true);
      }),
    );
  });

  test("a host whose verdict does not depend on the others gets the same verdict alone", () => {
    fc.assert(
      fc.property(fleets, times, times, (hosts, countedFromMs, now) => {
        const { verdicts } = planLiveness({ hosts, countedFromMs }, now);
        for (const one of hosts) {
          const among = verdicts.get(one.name);
          const isOpen =
            among?.at === "massExpiry" || (among?.at === "unreachable" && one.reachable !== "False");
          expect(judgeSingleHost(one, countedFromMs, now)).toEqual(isOpen ? undefined : among);
        }
      }),
    );
  });

  test("every verdict that can change without an event has a recheck time", () => {
    fc.assert(
      fc.property(fleets, times, times, (hosts, countedFromMs, now) => {
        const { verdicts, recheckAfterMs } = planLiveness({ hosts, countedFromMs }, now);
        const moves = [...verdicts.values()].some(({ at: word }) => word !== "lost" && word !== "neverSeen");
        if (moves) expect(recheckAfterMs).toBeGreaterThan(0);
      }),
    );
  });
});
