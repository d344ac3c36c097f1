import { expect, test } from "vitest";
import { isReady, type PodReport, restartsOf, stateOfPod } from "./pod.ts";

const waiting = (reason: string, message = "") => [{ state: { waiting: { reason, message } } }];
const ready = (status: string) => ({ type: "Ready", status });
const unscheduled = {
  type: "PodScheduled",
  status: "False",
  reason: "Unschedulable",
  message: "0/3 nodes",
};

test.each<[string, PodReport["status"], string, string, string]>([
  ["nothing yet", undefined, "Pending", "busy", ""],
  [
    "a container that waits",
    { containerStatuses: waiting("ImagePullBackOff", "no image") },
    "ImagePullBackOff",
    "bad",
    "no image",
  ],
  [
    "an init container that waits",
    {
      initContainerStatuses: waiting("CrashLoopBackOff", "x"),
      containerStatuses: waiting("PodInitializing"),
    },
    "CrashLoopBackOff",
    "bad",
    "x",
  ],
  [
    "a container that is created",
    { phase: "Pending", containerStatuses: waiting("ContainerCreating") },
    "Pending",
    "busy",
    "",
  ],
  ["no node", { phase: "Pending", conditions: [unscheduled] }, "Unschedulable", "bad", "0/3 nodes"],
  ["readiness", { phase: "Running", conditions: [ready("True")] }, "Ready", "ok", ""],
  [
    "an eviction",
    { phase: "Failed", reason: "Evicted", message: "low on memory" },
    "Evicted",
    "bad",
    "low on memory",
  ],
])("the state of a pod with %s", (_case, status, word, level, message) => {
  expect(stateOfPod({ metadata: {}, status })).toEqual({ word, level, message });
});

test("a pod that is being deleted is terminating, even while it is ready", () => {
  const metadata = { deletionTimestamp: "2026-01-01T00:00:00Z" };
  expect(stateOfPod({ metadata, status: { conditions: [ready("True")] } }).word).toBe("Terminating");
});

test("is ready by its condition, and counts the restarts of its containers", () => {
  expect([undefined, {}, { conditions: [ready("False")] }].map((status) => isReady({ status }))).toEqual([
    false,
    false,
    false,
  ]);
  expect(isReady({ status: { conditions: [ready("True")] } })).toBe(true);
  expect(restartsOf({ status: { containerStatuses: [{ restartCount: 2 }, {}, { restartCount: 1 }] } })).toBe(
    3,
  );
});
