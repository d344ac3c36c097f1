import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Lease } from "../../../src/kube/objects.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { planLiveness } from "./liveness.ts";
import { planHost } from "./plan.ts";
import { leaseExpiresInMs } from "./reconcile.ts";
import { leaseMarkOf, readSign } from "./sign.ts";
import { createLeaseSigns, leaseMarkText } from "./signs.ts";

const NOW_MS = 100_000;

const leaseOf = (name: string, spec: object | undefined): Lease => ({
  metadata: { name },
  spec: { ...spec },
});
const held = (second: number) => ({
  holderIdentity: "mac-1_a",
  renewTime: `2026-01-01T00:00:${second}.000000Z`,
});

/** Lease specs that the controller observes after its start, with the time of each observation. */
const leases = {
  absent: [],
  "without a holder": [[0, {}]],
  "just taken": [
    [0, {}],
    [90_000, held(10)],
  ],
  renewed: [
    [0, held(10)],
    [90_000, held(20)],
  ],
  expired: [
    [0, held(10)],
    [20_000, held(20)],
  ],
  "expired before the start": [[0, held(10)]],
  released: [
    [0, held(10)],
    [20_000, held(20)],
    [90_000, { ...held(20), holderIdentity: "" }],
  ],
} as const satisfies Record<string, readonly (readonly [number, object])[]>;

const condition = (type: string, status: "True" | "False" | "Unknown", reason: string) => ({
  type,
  status,
  reason,
  message: "",
  lastTransitionTime: "2025-01-01T00:00:00Z",
});
const hosts = {
  registered: [],
  awaited: [condition("Reachable", "Unknown", "HostNeverSeen")],
  reachable: [condition("Reachable", "True", "HostReachable"), condition("Lost", "False", "NotLost")],
  lost: [condition("Reachable", "False", "HostUnreachable"), condition("Lost", "True", "HostLost")],
};

function signsOf(seen: readonly (readonly [number, object])[], name: string) {
  let now = 0;
  const clock: Clock = { nowMs: () => now, monotonicMs: () => now, after: () => () => {} };
  const signs = createLeaseSigns(clock);
  for (const [atMs, spec] of seen) {
    now = atMs;
    signs.note(name, leaseMarkOf(leaseOf(name, spec)), atMs === 0);
  }
  return signs;
}

function planOf(lease: keyof typeof leases, host: keyof typeof hosts, isRunning: boolean): string {
  const signs = signsOf(leases[lease], "mac-1");
  const object = {
    metadata: { name: "mac-1" },
    spec: {},
    status: { conditions: hosts[host] },
  } as unknown as Host;
  const replica = { metadata: { name: "a" }, spec: { hostLostSeconds: 60 } } as unknown as InferenceReplica;
  const replicas = isRunning ? [replica] : [];
  const last = leases[lease].at(-1)?.[1];
  const sign = readSign(object, {
    lease: last === undefined ? undefined : leaseOf("mac-1", last),
    replicas,
    lastChangeMs: signs.lastChangeMs("mac-1"),
    absence: signs.absence("mac-1"),
    isDeclaredLost: false,
  });
  const { verdicts } = planLiveness({ hosts: [sign], countedFromMs: signs.countedFromMs() }, NOW_MS);
  const verdict = verdicts.get("mac-1") ?? { at: "neverSeen" };
  const { steps } = planHost(
    {
      name: "mac-1",
      host: object,
      verdict,
      replicas,
      slices: [],
      leavingMs: new Map(),
      blockerOf: () => undefined,
    },
    "2026-01-01T00:02:00Z",
  );
  const conditions = steps.flatMap((step) => (step.do === "setHostConditions" ? step.conditions : []));
  const events = steps.flatMap((step) => (step.do === "setHostConditions" ? step.events : []));
  const isReplaced = steps.some((step) => step.do === "forceDeleteReplica");
  return [
    verdict.at,
    ...conditions.map(({ type, status }) => `${type}=${status}`),
    ...events.map(({ type, reason }) => `${type} ${reason}`),
    ...(isReplaced ? ["replica replaced"] : []),
  ].join(", ");
}

const AWAITED = "neverSeen, Reachable=Unknown";
const JOINED = "reachable, Lost=False, Reachable=True, Normal HostReachable";
const RETURNED = "reachable, Lost=False, Reachable=True, Normal HostReturned";
const SILENT = "unreachable, Lost=False, Reachable=False, Warning HostUnreachable";
const LOST = "lost, Lost=True, Reachable=False";

describe("a Host that runs nothing, and its Lease", () => {
  test.each([
    // Columns: the Lease, then the result for a Host that was just registered, one that awaits its agent, a reachable one and a lost one.
    ["absent", AWAITED, AWAITED, AWAITED, AWAITED],
    ["without a holder", AWAITED, AWAITED, AWAITED, AWAITED],
    ["just taken", JOINED, JOINED, "reachable, Lost=False, Reachable=True", RETURNED],
    ["renewed", JOINED, JOINED, "reachable, Lost=False, Reachable=True", RETURNED],
    ["expired", SILENT, SILENT, SILENT, LOST],
    ["expired before the start", AWAITED, AWAITED, SILENT, LOST],
    ["released", AWAITED, AWAITED, AWAITED, AWAITED],
  ] as const)("a Host without replicas gets the state of its Lease: %s", (lease, ...expected) => {
    const names = ["registered", "awaited", "reachable", "lost"] as const;
    expect(names.map((host) => planOf(lease, host, false))).toEqual(expected);
  });
});

describe("a Host with a replica, and its Lease", () => {
  const REPLACED =
    "lost, Lost=True, Reachable=False, Warning HostUnreachable, Warning HostLost, replica replaced";
  const STILL = `${LOST}, replica replaced`;
  test.each([
    ["absent", REPLACED, REPLACED, SILENT, STILL],
    ["without a holder", REPLACED, REPLACED, SILENT, STILL],
    ["just taken", JOINED, JOINED, "reachable, Lost=False, Reachable=True", RETURNED],
    ["renewed", JOINED, JOINED, "reachable, Lost=False, Reachable=True", RETURNED],
    ["expired", SILENT, SILENT, SILENT, STILL],
    ["expired before the start", REPLACED, REPLACED, SILENT, STILL],
    // A host that clears its Lease keeps its replicas no longer than a host that becomes silent.
    ["released", REPLACED, REPLACED, SILENT, STILL],
  ] as const)("a Host with a replica gets the state of its Lease: %s", (lease, ...expected) => {
    const names = ["registered", "awaited", "reachable", "lost"] as const;
    expect(names.map((host) => planOf(lease, host, true))).toEqual(expected);
  });
});

test.each([
  ["absent", -60_000],
  ["without a holder", -60_000],
  ["just taken", 30_000],
  ["renewed", 30_000],
  ["expired", -40_000],
  ["expired before the start", -60_000],
  ["released", -40_000],
] as const)("the Lease of a removed Host is deleted 40 s after its last renewal: %s", (lease, leftMs) => {
  const signs = signsOf(leases[lease], "mac-1");
  const seen = { lastChangeMs: signs.lastChangeMs("mac-1"), countedFromMs: signs.countedFromMs() };
  expect(leaseExpiresInMs(seen, NOW_MS)).toBe(leftMs);
});

const some = (count: number, prefix: string, of: Partial<Parameters<typeof sign>[1]>) =>
  Array.from({ length: count }, (_, index) => sign(`${prefix}-${index}`, of));
const sign = (
  name: string,
  more: { hasHolder?: boolean; lastChangeMs?: number; reachable?: "True" | "False" },
) => ({ name, isLost: false, hasHolder: true, ...more });

test("hosts that no agent has joined are not counted: two live hosts that fall silent are unreachable despite fifty such hosts", () => {
  const awaited = some(50, "new", { hasHolder: false });
  const live = some(2, "mac", { lastChangeMs: 10_000, reachable: "True" });
  const { verdicts, recheckAfterMs } = planLiveness(
    { hosts: [...awaited, ...live], countedFromMs: 0 },
    NOW_MS,
  );
  const words = [...verdicts.values()].map(({ at }) => at);
  expect(words.filter((word) => word === "neverSeen")).toHaveLength(50);
  expect(words.slice(50)).toEqual(["unreachable", "unreachable"]);
  expect(recheckAfterMs).toBe(210_000);
});

test("three of four live hosts that fall silent together are a mass expiry, regardless of the number of registered hosts", () => {
  const awaited = some(50, "new", { hasHolder: false });
  const silent = some(3, "mac", { lastChangeMs: 10_000, reachable: "True" });
  const alive = some(1, "alive", { lastChangeMs: 90_000, reachable: "True" });
  const { verdicts } = planLiveness({ hosts: [...awaited, ...silent, ...alive], countedFromMs: 0 }, NOW_MS);
  expect([...verdicts.values()].slice(50).map(({ at }) => at)).toEqual([
    ...["massExpiry", "massExpiry", "massExpiry", "reachable"],
  ]);
});

test("the stored text of a Lease is short and differs for every renewal, for any content written by the host", () => {
  const any = fc.oneof(fc.string(), fc.string({ minLength: 200, maxLength: 2_000 }));
  const time = fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
  fc.assert(
    fc.property(any, any, (holder, renewTime) => {
      expect(leaseMarkText({ holder, renewTime }).length).toBeLessThanOrEqual(318);
    }),
  );
  fc.assert(
    fc.property(any, time, time, (holder, one, other) => {
      const isSame =
        leaseMarkText({ holder, renewTime: one }) === leaseMarkText({ holder, renewTime: other });
      expect(isSame).toBe(one === other);
    }),
  );
});
