import { expect, test } from "vitest";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { gatedPods, outdatedPods, releaseOf } from "./gates.ts";
import type { JudgedNode } from "./nodes.ts";

const GATE = { name: "metalbridge.dev/placement" };
const podWith = (spec: Partial<Pod["spec"]>, more: Partial<Pod> = {}): Pod => ({
  metadata: { name: "chat", namespace: "a", uid: "u", resourceVersion: "7", annotations: { own: "1" } },
  spec: { containers: [], schedulingGates: [GATE], ...spec },
  ...more,
});
const avoids = (...values: string[]) => ({ key: "kubernetes.io/hostname", operator: "NotIn", values });
const required = (...nodeSelectorTerms: object[]) => ({
  requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms },
});
const decision = {
  choice: { avoid: ["small"], prefer: [{ weight: 100, nodes: ["fast"] }] },
  reason: "prefers: fast",
  score: 0.7,
};
const preferred = {
  preferredDuringSchedulingIgnoredDuringExecution: [
    {
      weight: 100,
      preference: { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: ["fast"] }] },
    },
  ],
};

test("a pod that Kueue still holds waits for the choice of its node until then", () => {
  const held = podWith({ schedulingGates: [{ name: "kueue.x-k8s.io/admission" }, GATE] });
  const ready = podWith({});
  expect(gatedPods([held, ready, podWith({ schedulingGates: [] })])).toEqual([ready]);
});

test("a release narrows every term, states the preferences, and removes only our gate of the pod as it was read", () => {
  const other = { key: "gpu", operator: "Exists" };
  const podAffinity = { requiredDuringSchedulingIgnoredDuringExecution: [] };
  const pod = podWith({
    schedulingGates: [{ name: "kueue.x-k8s.io/admission" }, GATE],
    affinity: { podAffinity, nodeAffinity: required({ matchExpressions: [other] }) },
  });
  expect(releaseOf(pod, decision)).toEqual([
    { op: "test", path: "/metadata/resourceVersion", value: "7" },
    {
      op: "add",
      path: "/metadata/annotations",
      value: {
        own: "1",
        "metalbridge.dev/placement-reason": "prefers: fast",
        "metalbridge.dev/placement-score": "0.70",
      },
    },
    {
      op: "add",
      path: "/spec/affinity",
      value: {
        podAffinity,
        nodeAffinity: { ...required({ matchExpressions: [other, avoids("small")] }), ...preferred },
      },
    },
    { op: "test", path: "/metadata/uid", value: "u" },
    { op: "test", path: "/spec/schedulingGates/1/name", value: GATE.name },
    { op: "remove", path: "/spec/schedulingGates/1" },
  ]);
});

const affinityAfter = (nodeAffinity: object) =>
  releaseOf(podWith({ affinity: { nodeAffinity } }), decision).find(({ path }) => path === "/spec/affinity");

test("a pod with several required terms gets no preferences, because Karpenter drops the terms first", () => {
  const gpu = { key: "nvidia.com/gpu.memory", operator: "Exists" };
  expect(affinityAfter(required({ matchExpressions: [gpu] }, {}))).toMatchObject({
    value: {
      nodeAffinity: required(
        { matchExpressions: [gpu, avoids("small")] },
        { matchExpressions: [avoids("small")] },
      ),
    },
  });
  expect(JSON.stringify(affinityAfter(required({}, {})))).not.toContain("preferred");
});

test("preferences of flavors stay, and those for nodes do not outweigh them", () => {
  const flavor = (weight: number) => ({ weight, preference: { matchExpressions: [{ key: "gpu" }] } });
  const weightsAfter = (...weights: number[]) => {
    const given = { preferredDuringSchedulingIgnoredDuringExecution: weights.map(flavor) };
    const after = affinityAfter({ ...required({}), ...given });
    const { nodeAffinity } = (after as { value: { nodeAffinity: typeof given } }).value;
    return nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution.map(({ weight }) => weight);
  };
  expect(weightsAfter()).toEqual([100]);
  expect(weightsAfter(100)).toEqual([100, 99]);
  expect(weightsAfter(100, 50)).toEqual([100, 50, 49]);
  expect(weightsAfter(100, 50, 1)).toEqual([100, 50, 1]);
});

test("a release without a choice changes no affinity, and one without nodes to avoid requires nothing", () => {
  const none = { choice: { avoid: [], prefer: [] }, reason: "scores are off", score: undefined };
  const paths = releaseOf(podWith({}), none).map(({ op, path }) => `${op} ${path}`);
  expect(paths).toEqual([
    "test /metadata/resourceVersion",
    "add /metadata/annotations",
    "test /metadata/uid",
    "test /spec/schedulingGates/0/name",
    "remove /spec/schedulingGates/0",
  ]);
  const { prefer } = decision.choice;
  expect(releaseOf(podWith({}), { ...decision, choice: { avoid: [], prefer } })).toContainEqual({
    op: "add",
    path: "/spec/affinity",
    value: { nodeAffinity: preferred },
  });
});

test("only a released pod that finds no node, and avoids one that fits now, is replaced", () => {
  const node = (name: string, at: "fits" | "tooSmall"): JudgedNode => ({
    name,
    hostname: name,
    fit: { at, claimBytes: 2, budgetBytes: at === "fits" ? 3 : 1 },
    figures: {},
  });
  const judged = [node("small", "fits"), node("other", "tooSmall"), node("left", "fits")];
  const unscheduled = { type: "PodScheduled", status: "False", reason: "Unschedulable" } as const;
  const waiting = (names: string[], { released = true, reason = "Unschedulable", deleted = false } = {}) =>
    podWith(
      { schedulingGates: [], affinity: { nodeAffinity: required({ matchExpressions: [avoids(...names)] }) } },
      {
        metadata: {
          name: "chat",
          annotations: released ? { "metalbridge.dev/placement-reason": "" } : {},
          ...(deleted ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
        },
        status: { conditions: [{ ...unscheduled, reason }] },
      },
    );
  const isOutdated = (pod: Pod) => outdatedPods([pod], judged, { avoid: ["left"], prefer: [] }).length > 0;
  expect(isOutdated(waiting(["small", "other"]))).toBe(true);
  expect(isOutdated(waiting(["other"]))).toBe(false);
  expect(isOutdated(waiting(["left"]))).toBe(false);
  expect(isOutdated(waiting(["small"], { released: false }))).toBe(false);
  expect(isOutdated(waiting(["small"], { reason: "SchedulingGated" }))).toBe(false);
  expect(isOutdated(waiting(["small"], { deleted: true }))).toBe(false);
  expect(isOutdated(podWith({ affinity: { nodeAffinity: { broken: 1 } } }))).toBe(false);
});
