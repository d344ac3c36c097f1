/** What a service reports of Kueue: whether its pods wait for quota, and why. */
import { expect, test } from "vitest";
import { type InferenceService, inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import type { Pod, QueueWorkload, StatusCondition } from "../../src/kube/workload-objects.ts";
import { quotaCondition, readQuota } from "./quota.ts";

const GATE = { name: "kueue.x-k8s.io/admission" };
const OURS = { name: "metalbridge.dev/placement" };

function serviceIn(queue?: string, podLabels?: Record<string, string>): InferenceService {
  const labels = queue === undefined ? {} : { "kueue.x-k8s.io/queue-name": queue };
  return inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "a", labels },
    spec: { modelRef: "m", podLabels },
  });
}

function podNamed(uid: string, schedulingGates: Pod["spec"]["schedulingGates"] = [], more = {}): Pod {
  return { metadata: { name: uid, uid, ...more }, spec: { containers: [], schedulingGates } };
}

function workload(...conditions: readonly Partial<StatusCondition>[]): QueueWorkload {
  return { metadata: { name: "w" }, status: { conditions: conditions as StatusCondition[] } };
}

const NO_QUOTA = { type: "QuotaReserved", status: "False", reason: "Pending", message: "no room" } as const;
const RESERVED = { type: "QuotaReserved", status: "True", reason: "QuotaReserved" } as const;
const UNCHECKED = {
  type: "Admitted",
  status: "False",
  reason: "NoChecks",
  message: "check x waits",
} as const;
const ADMITTED = { type: "Admitted", status: "True", reason: "Admitted" } as const;
const EVICTED = { type: "Evicted", status: "True", reason: "Preempted", message: "for a workload" } as const;
const LEAVING = { deletionTimestamp: "2026-01-01T00:00:00Z" };

test.each<[string, readonly Pod[], Record<string, QueueWorkload>, string, RegExp]>([
  ["no pods", [], {}, "Unknown NoPods", /no pods/],
  ["pods that Kueue does not manage", [podNamed("a")], {}, "Unknown QueueNotManaged", /1 of 1 .* To do: /],
  ["a gate before its Workload", [podNamed("a", [GATE])], {}, "False WaitingForQuota", /has not created/],
  ["a new Workload", [podNamed("a", [GATE])], { a: workload() }, "False WaitingForQuota", /not evaluated/],
  [
    "one pod of two without quota",
    [podNamed("a", [OURS, GATE]), podNamed("b")],
    { a: workload(NO_QUOTA), b: workload(RESERVED, ADMITTED) },
    "False WaitingForQuota",
    /^1 of 2 pods waits for quota in queue team-a: Pending: no room$/,
  ],
  [
    "a pod with quota and an open check",
    [podNamed("a", [GATE])],
    { a: workload(RESERVED, UNCHECKED) },
    "False WaitingForQuota",
    /NoChecks: check x waits/,
  ],
  [
    "an admitted pod",
    [podNamed("a", [OURS])],
    { a: workload(RESERVED, ADMITTED) },
    "True Admitted",
    /has admitted the pod to queue team-a/,
  ],
  [
    "an evicted pod that stops, and its successor",
    [podNamed("a", [], LEAVING), podNamed("b", [GATE])],
    { a: workload(RESERVED, EVICTED) },
    "False QueueEvicted",
    /evicts a pod from queue team-a: Preempted: for a workload/,
  ],
  [
    "an admitted pod that stops, and its successor",
    [podNamed("a", [], LEAVING), podNamed("b")],
    { a: workload(ADMITTED), b: workload(ADMITTED) },
    "True Admitted",
    /the pod/,
  ],
])("%s: QueueAdmitted is %s", (_, pods, workloads, expected, message) => {
  const quota = readQuota(serviceIn("team-a"), pods, (uid) => [workloads[uid] ?? []].flat());
  if (quota === undefined) throw new Error("the service names a queue");
  const condition = quotaCondition(quota);
  expect(`${condition.status} ${condition.reason}`).toBe(expected);
  expect(condition.message).toMatch(message);
});

test("a service without a queue has no condition, unless Kueue manages its pods anyway", () => {
  expect(readQuota(serviceIn(), [podNamed("a")], () => [])).toBeUndefined();
  expect(readQuota(serviceIn(), [podNamed("a", [GATE])], () => [])).toMatchObject({ waiting: 1 });
  const labels = { "kueue.x-k8s.io/queue-name": "team-b" };
  expect(readQuota(serviceIn(undefined, labels), [], () => [])).toMatchObject({ queue: "team-b" });
});
