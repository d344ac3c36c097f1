import { expect, test } from "vitest";
import type { InferenceReplica } from "../api/inference-replica.ts";
import { exitText, isServing, levelOfPhase, phaseSince, phaseText, stateOfReplica } from "./replica.ts";

const replica = (status: object | undefined, metadata: object = {}) =>
  ({ metadata, status }) as unknown as InferenceReplica;
const reachable = (status: string) => ({
  type: "HostReachable",
  status,
  reason: "r",
  message: "silent for 52 s",
});

test.each([
  ["no status", undefined, "Pending", "busy", ""],
  ["Ready", { phase: "Ready", message: "serving" }, "Ready", "ok", ""],
  ["Ready on a host that answers", { phase: "Ready", conditions: [reachable("True")] }, "Ready", "ok", ""],
  [
    "Ready on a host whose state is not known",
    { phase: "Ready", conditions: [reachable("Unknown")] },
    "Ready",
    "ok",
    "",
  ],
  [
    "Ready on a host that is away",
    { phase: "Ready", conditions: [reachable("False")] },
    "Ready, host unreachable",
    "bad",
    "silent for 52 s",
  ],
  [
    "Fetching",
    { phase: "Fetching", message: "weights", progress: { bytes: 62, totalBytes: 100 } },
    "Fetching 62 %",
    "busy",
    "weights",
  ],
  ["Waiting", { phase: "Waiting", message: "no memory" }, "Waiting", "warn", "no memory"],
  ["Backoff", { phase: "Backoff" }, "Backoff", "warn", ""],
  ["Evicted", { phase: "Evicted" }, "Evicted", "warn", ""],
  ["Stopped", { phase: "Stopped" }, "Stopped", "idle", ""],
  ["Failed", { phase: "Failed" }, "Failed", "bad", ""],
])("the state of a replica with %s", (_case, status, word, level, message) => {
  expect(stateOfReplica(replica(status))).toEqual({ word, level, message });
});

test("a phase of a later version is neither good nor bad, and the phase has no figures", () => {
  expect(levelOfPhase("Thinking")).toBe("idle");
  expect(phaseText(replica({ phase: "Fetching", progress: { bytes: 1, totalBytes: 2 } }))).toBe("Fetching");
});

test("serves while Ready, unless its host is away or it is being deleted", () => {
  expect(isServing(replica({ phase: "Ready" }))).toBe(true);
  expect(isServing(replica({ phase: "Starting" }))).toBe(false);
  expect(isServing(replica({ phase: "Ready", conditions: [reachable("False")] }))).toBe(false);
  expect(isServing(replica({ phase: "Ready" }, { deletionTimestamp: "2026-01-01T00:00:00Z" }))).toBe(false);
});

test("is in its phase since the last transition, or since it became Ready", () => {
  expect(phaseSince(replica({ phase: "Ready", readyAt: "a", transitions: [{ at: "b" }, { at: "c" }] }))).toBe(
    "c",
  );
  expect(phaseSince(replica({ phase: "Ready", readyAt: "a" }))).toBe("a");
  expect(phaseSince(replica({ phase: "Backoff", readyAt: "a" }))).toBeUndefined();
});

test.each([
  [{ code: 1 }, "exit code 1"],
  [
    { signal: "SIGKILL", killedByUs: true, reason: "HostMemoryShort" },
    "SIGKILL, stopped by the agent, HostMemoryShort",
  ],
  [{}, "exit status unknown"],
])("%o ended with %s", (exit, text) => {
  expect(exitText(exit as Parameters<typeof exitText>[0])).toBe(text);
});
