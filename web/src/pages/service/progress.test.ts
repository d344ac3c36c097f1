import { expect, test } from "vitest";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { ServicePod } from "./objects.ts";
import { stepsOfPod, stepsOfReplica } from "./progress.ts";

const at = (seconds: number) => new Date(Date.UTC(2026, 10, 27, 20, 0, seconds)).toISOString();
const replica = (status: object) =>
  ({ metadata: { name: "chat-0", creationTimestamp: at(0) }, status }) as InferenceReplica;
const words = (steps: readonly { readonly word: string; readonly atMs: number }[]) =>
  steps.map(({ word, atMs }) => `${word} ${new Date(atMs).getUTCSeconds()}`);

test("the steps of a replica start with its creation; reasons within a phase are one step; progress is in the last", () => {
  const steps = stepsOfReplica(
    replica({
      phase: "Fetching",
      progress: { bytes: 62, totalBytes: 100 },
      transitions: [
        { at: at(3), phase: "Fetching", reason: "A" },
        { at: at(9), phase: "Fetching", reason: "B" },
      ],
    }),
  );
  expect(words(steps)).toEqual(["Pending 0", "Fetching 62 % 3"]);
});

test("a replica that was restarted shows each time; with as many transitions as are kept, the first ones are unknown", () => {
  const phases = ["Starting", "Ready", "Backoff", "Starting", "Ready"];
  const transitions = phases.map((phase, index) => ({ at: at(index), phase, reason: "x" }));
  expect(words(stepsOfReplica(replica({ phase: "Ready", transitions })))).toEqual([
    "Pending 0",
    ...phases.map((phase, index) => `${phase} ${index}`),
  ]);
  const full = stepsOfReplica(replica({ phase: "Ready", transitions: [...transitions, ...transitions] }));
  expect(full[0]?.word).toBe("Starting");
});

test("a replica without a status is pending", () => {
  expect(words(stepsOfReplica(replica({})))).toEqual(["Pending 0"]);
});

const pod = (status: ServicePod["status"]) =>
  ({ metadata: { name: "p", creationTimestamp: at(0) }, spec: {}, status }) as ServicePod;

test("the steps of a pod are its conditions, up to the first that is missing", () => {
  const condition = (type: string, seconds: number, status = "True") => ({
    type,
    status,
    lastTransitionTime: at(seconds),
  });
  const conditions = [
    condition("PodScheduled", 1),
    condition("Initialized", 5),
    condition("Ready", 9, "False"),
  ];
  expect(words(stepsOfPod(pod({ conditions })))).toEqual(["Pending 0", "Scheduled 1", "Fetched 5"]);
});
