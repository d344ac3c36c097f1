import { expect, test } from "vitest";
import type { InferenceReplicaStatus } from "../../../src/api/inference-replica.ts";
import type { ObservedReplica } from "../evidence/observed.ts";
import type { ReplicaPlan } from "../state/step.ts";
import { nothingKnown } from "../testing/facts.ts";
import { isSameStatus, replicaStatus } from "./status.ts";

const plan: ReplicaPlan = {
  phase: "Fetching",
  reason: "DownloadingModel",
  message: "fetching the weights",
  steps: [],
};

function fetching(bytes: number): ObservedReplica {
  return { ...nothingKnown(), model: { at: "fetching", bytes, totalBytes: 1_000, bytesPerSecond: 12.7 } };
}

function statusAt(
  now: number,
  bytes: number,
  previous?: InferenceReplicaStatus,
  progressWrittenAt?: number,
): InferenceReplicaStatus {
  const facts = { transitions: [], generation: 3, progressWrittenAt };
  return replicaStatus(plan, fetching(bytes), previous, facts, {
    now,
    iso: `2026-01-01T00:00:${10 + now / 1_000}Z`,
    progressMs: 5_000,
    performanceMs: 30_000,
  });
}

test("progress is published only after five seconds and five percent", () => {
  const first = statusAt(0, 10);
  expect(first.progress).toEqual({ bytes: 10, totalBytes: 1_000, bytesPerSecond: 13 });
  expect(statusAt(1_000, 900, first, 0).progress).toEqual(first.progress);
  expect(statusAt(6_000, 40, first, 0).progress).toEqual(first.progress);
  expect(statusAt(6_000, 80, first, 0).progress?.bytes).toBe(80);
});

test("an unchanged state yields the same status, whatever the time and the conditions of other writers", () => {
  const first = statusAt(0, 10);
  const again = statusAt(2_000, 11, first, 0);
  const foreign = {
    type: "HostReachable",
    status: "True",
    reason: "Renewed",
    message: "",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  } as const;
  expect(isSameStatus(again, { ...first, conditions: [foreign, ...(first.conditions ?? [])] })).toBe(true);
  expect(again.conditions?.[0]).toMatchObject({
    type: "Ready",
    status: "False",
    lastTransitionTime: "2026-01-01T00:00:10Z",
  });
  expect(isSameStatus({ ...again, restarts: 1 }, first)).toBe(false);
});

test("a restarted agent removes nothing from status that it has not inspected", () => {
  const before: InferenceReplicaStatus = { model: { sizeBytes: 7 } };
  const unlooked: ObservedReplica = { ...nothingKnown(), model: { at: "unknown" } };
  const time = { now: 0, iso: "2026-01-01T00:00:00Z", progressMs: 5_000, performanceMs: 30_000 };
  expect(replicaStatus(plan, unlooked, before, { transitions: [], generation: 1 }, time).model).toEqual({
    sizeBytes: 7,
  });
  expect(
    replicaStatus(plan, nothingKnown(), before, { transitions: [], generation: 1 }, time).model,
  ).toBeUndefined();
});

test("a footprint of the running process is published once it has changed by more than five percent", () => {
  const record = { runId: "a", revision: "r", port: 1, claimBytes: 9, startedAt: 0, drainSeconds: 1 };
  const shown = (bytes: number | undefined, before?: number, pid = 7) => {
    const footprint = bytes === undefined ? {} : { footprint: { lastAt: 0, bytes } };
    const observed: ObservedReplica = {
      ...nothingKnown(),
      run: { at: "running", pid: 7 },
      record,
      ...footprint,
    };
    const previous = before === undefined ? undefined : { pid, memory: { footprintBytes: before } };
    const time = { now: 0, iso: "2026-01-01T00:00:00Z", progressMs: 5_000, performanceMs: 30_000 };
    return replicaStatus(plan, observed, previous, { transitions: [], generation: 1 }, time).memory;
  };
  expect(shown(undefined)).toEqual({ claimBytes: 9 });
  expect(shown(1_000)).toEqual({ claimBytes: 9, footprintBytes: 1_000 });
  expect(shown(1_049, 1_000)?.footprintBytes).toBe(1_000);
  expect(shown(951, 1_000)?.footprintBytes).toBe(1_000);
  expect(shown(1_051, 1_000)?.footprintBytes).toBe(1_051);
  expect(shown(900, 1_000)?.footprintBytes).toBe(900);
  expect(shown(undefined, 1_000)?.footprintBytes).toBe(1_000);
  expect(shown(undefined, 1_000, 6)?.footprintBytes).toBeUndefined();
});

test("a replica's transitions are published with the next write, and cause none", () => {
  const facts = {
    generation: 1,
    transitions: [{ at: "2026-01-01T00:00:00Z", phase: "Ready", reason: "Serving" }],
  } as const;
  const time = { now: 0, iso: "2026-01-01T00:00:00Z", progressMs: 5_000, performanceMs: 30_000 };
  const before = replicaStatus(plan, nothingKnown(), undefined, { transitions: [], generation: 1 }, time);
  const next = replicaStatus(plan, nothingKnown(), before, facts, time);
  expect(next.transitions).toEqual(facts.transitions);
  expect(isSameStatus(next, before)).toBe(true);
  expect(isSameStatus({ ...next, restarts: 1 }, before)).toBe(false);
});

test("nextTryAt is one absolute time, which stays the same if it differs by a second, and is removed with the wait", () => {
  const held: ReplicaPlan = { ...plan, phase: "Backoff", reason: "EngineCrashed", nextTryAt: 9_000 };
  const status = (nextTryIso: string | undefined, previous?: InferenceReplicaStatus) =>
    replicaStatus(
      held,
      nothingKnown(),
      previous,
      { transitions: [], generation: 1, nextTryIso },
      { now: 0, iso: "2026-01-01T00:00:00Z", progressMs: 5_000, performanceMs: 30_000 },
    );
  const first = status("2026-01-01T00:03:10Z");
  expect(first.nextTryAt).toBe("2026-01-01T00:03:10Z");
  expect(isSameStatus(status("2026-01-01T00:03:11Z", first), first)).toBe(true);
  expect(status("2026-01-01T00:08:10Z", first).nextTryAt).toBe("2026-01-01T00:08:10Z");
  expect(status(undefined, first).nextTryAt).toBeUndefined();
});
