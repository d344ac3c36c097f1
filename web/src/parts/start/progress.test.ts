import { expect, test } from "vitest";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { ServiceRow } from "../../../../src/console/rows.ts";
import { type StartingObjects, startProgressOf } from "./progress.ts";

const objects = (changes: {
  readonly ready?: number;
  readonly replicas?: readonly InferenceReplica["status"][];
  readonly conditions?: readonly string[];
  readonly attention?: string;
  readonly desired?: number;
}) =>
  ({
    service: { status: { readyReplicas: changes.ready ?? 0, message: "of the service" } },
    replicas: (changes.replicas ?? []).map((status) => ({ status })),
    pods: changes.conditions
      ? [{ status: { conditions: changes.conditions.map((type) => ({ type, status: "True" })) } }]
      : [],
    row: changes.attention
      ? ({
          attention: { message: changes.attention },
          ready: changes.ready ?? 0,
          desired: changes.desired ?? 1,
        } as ServiceRow)
      : undefined,
  }) as unknown as StartingObjects;

const GIB = 1024 ** 3;
const fetching = (bytes: number, totalBytes?: number, bytesPerSecond?: number) =>
  ({ phase: "Fetching", progress: { bytes, totalBytes, bytesPerSecond } }) as InferenceReplica["status"];

test.each([
  ["nothing is known", {}, "placing"],
  ["no replica has a phase", { replicas: [undefined] }, "placing"],
  ["the host waits for memory", { replicas: [{ phase: "Waiting" }] }, "placing"],
  ["a replica downloads", { replicas: [{ phase: "Waiting" }, { phase: "Fetching" }] }, "downloading"],
  [
    "a replica starts while another downloads",
    { replicas: [{ phase: "Fetching" }, { phase: "Starting" }] },
    "loading",
  ],
  ["a pod is scheduled", { conditions: ["PodScheduled"] }, "downloading"],
  ["a pod has its weights", { conditions: ["PodScheduled", "Initialized"] }, "loading"],
  ["one replica is ready", { ready: 1, replicas: [{ phase: "Fetching" }] }, "ready"],
] as const)("while %s the stage is %s", (_case, changes, stage) => {
  expect(startProgressOf(objects(changes as Parameters<typeof objects>[0])).stage).toBe(stage);
});

test("downloads are summed", () => {
  const { download } = startProgressOf(
    objects({ replicas: [fetching(GIB, 3 * GIB, GIB / 8), fetching(GIB, GIB, GIB / 8)] }),
  );
  expect(download).toEqual({ bytes: 2 * GIB, totalBytes: 4 * GIB, bytesPerSecond: GIB / 4 });
});

test("it is stalled with the words of the condition", () => {
  const { isStuck, message } = startProgressOf(objects({ attention: "needs 21.4 GiB, 18.0 GiB free" }));
  expect([isStuck, message]).toEqual([true, "needs 21.4 GiB, 18.0 GiB free"]);
  expect(startProgressOf(objects({ ready: 1, attention: "no key" })).isStuck).toBe(false);
});

test("it is stalled while some replicas are ready and others cannot be", () => {
  const { stage, isStuck } = startProgressOf(objects({ ready: 4, desired: 50, attention: "no memory" }));
  expect([stage, isStuck]).toEqual(["ready", true]);
});
