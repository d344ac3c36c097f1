/** Effect of crashes on a rollout: from status through the health reading to the plan. */
import { describe, expect, test } from "vitest";
import type { InferenceReplica, ReplicaPhase } from "../../../src/api/inference-replica.ts";
import { crashesInARow } from "./crashes.ts";
import { type HealthHistory, readHealth } from "./health.ts";
import { planHostsRollout, planRemovalsFirst } from "./rollout.ts";

const BEGIN_MS = Date.parse("2026-01-01T00:00:00Z");
const MINUTE_MS = 60_000;

const iso = (minute: number) => new Date(BEGIN_MS + minute * MINUTE_MS).toISOString();

/** A phase history, with the start of each phase in minutes. */
function history(...began: readonly (readonly [number, ReplicaPhase])[]) {
  return { transitions: began.map(([minute, phase]) => ({ at: iso(minute), phase, reason: phase })) };
}

function replica(name: string, revision: string, status: object): InferenceReplica {
  const conditions = [{ type: "HostReachable", status: "True" }];
  return {
    metadata: { name, uid: name, creationTimestamp: iso(0) },
    spec: { template: { hostName: "mac-1", revision, model: { source: "hf://org/tiny" } } },
    status: { ...status, conditions },
  } as unknown as InferenceReplica;
}

/**
 * Removals in a rollout from aa to bb, by a controller that started at the first minute and observed all given states.
 */
function removalsAfter(...seen: readonly (readonly [minute: number, old: object, fresh: object])[]) {
  let history: HealthHistory = new Map();
  let lines: string[] = [];
  for (const [minute, old, fresh] of seen) {
    const replicas = [replica("chat-0-aa", "aa", old), replica("chat-0-bb", "bb", fresh)];
    const monotonicMs = 5_000 + minute * MINUTE_MS;
    const reading = readHealth(history, replicas, { monotonicMs, wallMs: BEGIN_MS + minute * MINUTE_MS });
    history = reading.history;
    const { failing, unsettled } = reading;
    const limits = { desired: 1, maxSurge: 1, maxUnavailable: 0 };
    const input = { ...limits, replicas, failing, unsettled, revision: "bb", fallback: "aa" };
    const full = {
      ...input,
      displaced: new Set<string>(),
      draining: new Set<string>(),
      known: new Set(["aa"]),
    };
    const plan = planHostsRollout(full);
    const removals = [...plan.removals, ...planRemovalsFirst(full, plan, new Set(), () => true)];
    lines = removals.map(({ replica: { metadata }, because }) => `${metadata.name}: ${because}`);
  }
  return lines;
}

const FETCHING = { phase: "Fetching" };
const BACKOFF = { phase: "Backoff", reason: "EngineCrashed", restarts: 3 };
const STARTING = { phase: "Starting", reason: "LoadingModel", restarts: 3 };
const UP = { phase: "Ready", restarts: 2, readyAt: iso(-90) };

describe("what serves keeps its slot while it is down for a moment, though it crashed long ago", () => {
  test("a serving replica that is briefly down keeps its slot if the controller has seen it serve since an old crash", () => {
    const before = [0, UP, FETCHING] as const;
    expect(removalsAfter(before, [11, BACKOFF, FETCHING])).toEqual([]);
    expect(removalsAfter(before, [11, BACKOFF, FETCHING], [11.1, STARTING, FETCHING])).toEqual([]);
  });

  test("a serving replica that is briefly down keeps its slot under a new controller if the agent reports that it served since", () => {
    const ended = history([-90, "Backoff"], [-89, "Ready"], [0, "Backoff"]);
    expect(removalsAfter([0, { ...BACKOFF, ...ended }, FETCHING])).toEqual([]);
    const again = history([-89, "Ready"], [0, "Backoff"], [0.1, "Starting"]);
    expect(removalsAfter([0, { ...STARTING, ...again }, FETCHING])).toEqual([]);
  });

  test("a serving replica keeps its slot while it restarts for another reason than a crash", () => {
    const moved = history([-89, "Ready"], [0, "Evicted"], [1, "Starting"]);
    expect(removalsAfter([1, { ...STARTING, ...moved }, FETCHING])).toEqual([]);
  });
});

describe("an old replica in a crash loop is replaced by the new revision", () => {
  const REPLACED = ["chat-0-aa: replaced by revision bb"];

  test("an old replica in a crash loop is replaced if neither agent nor controller has seen it serve for ten minutes", () => {
    expect(removalsAfter([0, BACKOFF, FETCHING])).toEqual(REPLACED);
    expect(removalsAfter([0, { ...UP, readyAt: iso(0) }, FETCHING], [9, BACKOFF, FETCHING])).toEqual(
      REPLACED,
    );
  });

  test("an old replica is replaced once it has crashed twice since it last served for ten minutes", () => {
    const once = { ...BACKOFF, ...history([-89, "Ready"], [11, "Backoff"]) };
    const cycle = [
      [-89, "Ready"],
      [11, "Backoff"],
      [12, "Starting"],
      [13, "Ready"],
      [14, "Backoff"],
    ] as const;
    const twice = { ...BACKOFF, restarts: 4, ...history(...cycle) };
    const seen = [
      [0, UP, FETCHING],
      [11, once, FETCHING],
    ] as const;
    expect(removalsAfter(...seen)).toEqual([]);
    expect(removalsAfter(...seen, [14, twice, FETCHING])).toEqual(REPLACED);
    expect(removalsAfter([14, twice, FETCHING])).toEqual(REPLACED);
  });
});

describe("the new one is trusted, and ends the old one", () => {
  const old = { phase: "Ready", restarts: 0, readyAt: iso(-500) };
  const SERVES = ["chat-0-aa: replaced by chat-0-bb, which is Ready"];

  test("a new controller trusts a new replica that has been Ready for ten minutes, and ends the old one", () => {
    expect(removalsAfter([0, old, { ...UP, readyAt: iso(-10) }])).toEqual(SERVES);
    expect(removalsAfter([0, old, { ...UP, readyAt: iso(-9) }])).toEqual([]);
  });

  test("a new replica that served for ten minutes is trusted immediately after one crash, and ends the old one", () => {
    const first = { ...UP, restarts: 2, readyAt: iso(0) };
    const again = { ...UP, restarts: 3, readyAt: iso(12) };
    const unready = { phase: "Starting", restarts: 0 };
    expect(removalsAfter([0, unready, first], [11, unready, BACKOFF], [12, old, again])).toEqual(SERVES);
  });
});

describe("crashes in a row", () => {
  const of = (status: object, forgiven = 0) => crashesInARow(replica("chat-0-aa", "aa", status), forgiven);

  test("one crash with two reasons is counted once", () => {
    const ended = history([0, "Ready"], [10, "Backoff"], [10, "Backoff"], [11, "Starting"]);
    expect(of({ restarts: 7, ...ended })).toBe(1);
  });

  test("consecutive crashes are never more than all restarts and never negative", () => {
    const ended = history([0, "Ready"], [10, "Backoff"], [11, "Starting"], [12, "Backoff"]);
    expect(of({ restarts: 1, ...ended })).toBe(1);
    expect(of({ restarts: 1 }, 3)).toBe(0);
    expect(of({})).toBe(0);
  });

  test("all crashes are consecutive if the replica never served for ten minutes, or if its times are inconsistent", () => {
    expect(of({ restarts: 4, ...history([0, "Ready"], [9, "Backoff"]) })).toBe(4);
    expect(of({ restarts: 4, ...history([20, "Ready"], [0, "Backoff"]) })).toBe(4);
  });
});

test("the crash count starts at zero again after an agent lost its state", () => {
  const [up, lost] = [UP, { ...UP, restarts: 0, readyAt: iso(12) }];
  const bad = { ...BACKOFF, restarts: 2 };
  const seen = [
    [0, up, FETCHING],
    [11, lost, FETCHING],
    [13, bad, FETCHING],
  ] as const;
  expect(removalsAfter(...seen)).toEqual(["chat-0-aa: replaced by revision bb"]);
});
