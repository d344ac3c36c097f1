import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readCatalog } from "../../../fitness/catalog/record.ts";
import { createFitness } from "../../../fitness/fitness.ts";
import { type InferenceService, inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { modelSchema } from "../../../src/api/model.ts";
import type { Deployment, Node, Pod } from "../../../src/kube/workload-objects.ts";
import { nodeAdmits } from "../../pods/workload/node-admission.ts";
import { moveCandidatesFor, moveRefusal, nodeHasRoom, observeReplicas } from "./observe.ts";

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

test("pods stay if a service has, or may have, several", () => {
  const scaled = (replicas?: number): Deployment => ({
    metadata: { name: "chat" },
    spec: { replicas, selector: {}, template: { spec: { containers: [] } } },
  });
  const upTo = (maxReplicas: number) => ({ spec: { autoscaling: { maxReplicas } } }) as InferenceService;
  expect(moveRefusal([], undefined)).toBeUndefined();
  expect(moveRefusal([scaled()], upTo(1))).toBeUndefined();
  expect(moveRefusal([scaled(2)], undefined)).toMatch(/a single pod/);
  expect(moveRefusal([scaled(1)], upTo(2))).toMatch(/a single pod/);
});

/** A Model whose GPUs only its flavors name, on nodes of two classes, and a pod of it on the second flavor. */
function flavored() {
  const gpu = (kind: string) => ({
    name: kind,
    nodeSelector: { kind },
    limits: { "nvidia.com/gpu": 1 },
    params: { args: [`--for=${kind}`] },
  });
  const model = modelSchema.parse({
    metadata: { name: "qwen", namespace: "a" },
    spec: {
      source: "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf",
      flavors: [gpu("large"), gpu("small")],
    },
    status: {
      ...{ phase: "Ready", format: "gguf", sizeBytes: 4.7e9, weightsBytes: 4.7e9 },
      gguf: {
        ...{ architecture: "qwen2", quantization: "Q4_K_M", contextLength: 32_768, embeddingSize: 3584 },
        ...{ layerCount: 28, headCount: 28, headCountKV: 4, keyLength: 128, valueLength: 128 },
      },
    },
  });
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "a" },
    spec: { modelRef: "qwen", contextSize: 4096, placement: { mode: "Auto" } },
    status: { flavor: { name: "small", reason: "room on small-1" } },
  });
  const node = (name: string, kind: string, mib?: number): Node => ({
    metadata: {
      name,
      labels: { kind, ...(mib === undefined ? {} : { "nvidia.com/gpu.memory": String(mib) }) },
    },
    status: {
      conditions: [{ type: "Ready", status: "True" }],
      capacity: { memory: "64Gi", cpu: "8" },
      allocatable: { memory: "64Gi", ...(mib === undefined ? {} : { "nvidia.com/gpu": "1" }) },
    },
  });
  const nodes = [
    node("large-1", "large", 81_920),
    node("small-1", "small", 24_576),
    node("small-2", "small", 24_576),
    node("tiny-1", "small", 4_096),
    node("plain", "none"),
  ];
  const pod: Pod = {
    metadata: { name: "chat-1", namespace: "a", uid: "u1" },
    spec: { nodeName: "small-1", containers: [] },
    status: { conditions: [{ type: "Ready", status: "True" }] },
  };
  const listed = <T extends { metadata: { name: string } }>(objects: readonly T[]) => ({
    list: () => objects,
    get: (key: string) => objects.find(({ metadata }) => key.endsWith(metadata.name)),
  });
  const none = { of: () => [] };
  return {
    services: listed([service]),
    models: listed([model]),
    nodes: listed(nodes),
    pods: listed([pod]),
    podsOfService: { of: () => [pod] },
    ofService: { replicas: none, claimTemplates: none },
    ...{ hosts: listed([]), replicas: listed([]), nodeReports: listed([]), deviceClasses: listed([]) },
    backendRuntimes: listed([]),
  } as unknown as Parameters<typeof observeReplicas>[0];
}

test("a pod is scored with the GPUs of its flavor, and moves only to nodes that its template allows", () => {
  const { records } = readCatalog(
    readFileSync(new URL("../../../catalog/models.jsonl", import.meta.url), "utf8"),
  );
  const fitness = createFitness(records);
  const watches = flavored();
  const [seen, ...others] = observeReplicas(watches, fitness);
  expect(others).toEqual([]);
  if (seen === undefined) throw new Error("the pod is not observed");
  expect(seen).toMatchObject({ by: "pod", on: "small-1" });
  const found = moveCandidatesFor(watches, seen, fitness, 0);
  expect(found.map(({ name, score }) => [name, score > 0])).toEqual([
    ["small-1", true],
    ["small-2", true],
    ["tiny-1", false],
  ]);
  expect(seen.score).toBe(found[0]?.score);
});
