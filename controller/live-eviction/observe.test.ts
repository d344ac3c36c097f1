import { expect, test } from "vitest";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Deployment, Node, Pod } from "../../src/kube/workload-objects.ts";
import { nodeAdmits } from "../workload/node-admission.ts";
import { moveRefusal, nodeHasRoom } from "./observe.ts";

const podOf = (parts: Partial<Pod["spec"]>): Pod => ({
  metadata: { name: "chat" },
  spec: { containers: [], ...parts },
});
const nodeOf = (spec: Node["spec"] & {}): Node => ({
  metadata: { name: "node-1" },
  spec,
  status: { conditions: [{ type: "Ready", status: "True" }] },
});
const taint = { key: "gpu", value: "h100", effect: "NoSchedule" };

test.each<[string, object[], object[], boolean]>([
  ["no taint", [], [], true],
  ["a taint that nothing tolerates", [taint], [], false],
  ["a preference of the node", [{ ...taint, effect: "PreferNoSchedule" }], [], true],
  ["all taints are tolerated", [taint], [{ operator: "Exists" }], true],
  ["the key, whatever its value", [taint], [{ key: "gpu", operator: "Exists" }], true],
  ["the key with its value", [taint], [{ key: "gpu", value: "h100" }], true],
  ["the key with another value", [taint], [{ key: "gpu", value: "a100" }], false],
  ["another effect", [taint], [{ key: "gpu", operator: "Exists", effect: "NoExecute" }], false],
  [
    "one of two taints",
    [taint, { key: "mine", effect: "NoExecute" }],
    [{ key: "gpu", operator: "Exists" }],
    false,
  ],
])("a node admits pods by taints and tolerations: %s", (_, taints, tolerations, expected) => {
  const pod = podOf({ tolerations: tolerations as Pod["spec"]["tolerations"] & {} });
  const node = nodeOf({ taints: taints as (Node["spec"] & {})["taints"] & {} });
  expect(nodeAdmits(node, pod.spec.tolerations)).toBe(expected);
  expect(nodeAdmits(nodeOf({ unschedulable: true }), pod.spec.tolerations)).toBe(false);
  expect(nodeAdmits({ ...nodeOf({}), status: {} }, pod.spec.tolerations)).toBe(false);
});

test("a node has room for a pod if it fits in addition to the pods of services, so that none is preempted", () => {
  const pod = (gpus: string, memory: string) =>
    podOf({
      containers: [
        {
          name: "engine",
          image: "i",
          resources: { limits: { "nvidia.com/gpu": gpus }, requests: { memory } },
        },
      ],
    });
  const node: Node = {
    metadata: { name: "node-1" },
    status: { allocatable: { "nvidia.com/gpu": "2", memory: "64Gi" } },
  };
  expect(nodeHasRoom(node, [], pod("2", "64Gi"))).toBe(true);
  expect(nodeHasRoom(node, [pod("1", "32Gi")], pod("1", "32Gi"))).toBe(true);
  expect(nodeHasRoom(node, [pod("1", "32Gi")], pod("2", "32Gi"))).toBe(false);
  expect(nodeHasRoom(node, [pod("1", "33Gi")], pod("1", "32Gi"))).toBe(false);
  const { "nvidia.com/gpu": _gpus, ...plain } = node.status?.allocatable ?? {};
  expect(nodeHasRoom({ ...node, status: { allocatable: plain } }, [], pod("1", "1Gi"))).toBe(false);
  expect(nodeHasRoom({ ...node, status: {} }, [], podOf({}))).toBe(true);
});

test("pods stay if a service has, or may have, several, or if the template of an older controller has no gate", () => {
  const scaled = (replicas?: number, ...schedulingGates: { name: string }[]): Deployment => ({
    metadata: { name: "chat" },
    spec: {
      replicas,
      selector: {},
      template: { spec: { containers: [], schedulingGates } },
    },
  });
  const upTo = (maxReplicas: number) => ({ spec: { autoscaling: { maxReplicas } } }) as InferenceService;
  const gate = { name: "metalbridge.dev/placement" };
  expect(moveRefusal([], undefined)).toBeUndefined();
  expect(moveRefusal([scaled(undefined, gate)], upTo(1))).toBeUndefined();
  expect(moveRefusal([scaled(2, gate)], undefined)).toMatch(/a single pod/);
  expect(moveRefusal([scaled(1, gate)], upTo(2))).toMatch(/a single pod/);
  for (const others of [[], [{ name: "kueue.x-k8s.io/admission" }]])
    expect(moveRefusal([scaled(1, ...others)], undefined)).toMatch(/older controller.*rollout restart chat$/);
});
