/** Nodes of six classes as device plugins and labelers describe them, and a model with measured speeds on four of them. */
import type { BenchmarkResult } from "../../src/api/benchmark.ts";
import { API_VERSION, LABEL_SERVICE, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { subjectOf } from "../../src/capacity/benchmark/subject.ts";
import { BENCHMARKS_NAME, benchmarkKey } from "../../src/capacity/benchmark/table.ts";
import { deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { devicesOfNode } from "../../src/capacity/devices/node.ts";
import type { ConfigMap } from "../../src/kube/objects.ts";

const GIB = 1024 ** 3;

/** Every node also offers this resource, which says nothing about the vendor. */
export const ANY_GPU = "example.com/gpu";

interface NodeClass {
  readonly labels: Readonly<Record<string, string>>;
  readonly capacity: Readonly<Record<string, string>>;
  /** Measured tokens per second, if the class was measured. */
  readonly speed?: number;
}

function nvidia(product: string, memoryMiB: number, compute: string): Omit<NodeClass, "speed"> {
  const [major = "", minor = ""] = compute.split(".");
  return {
    labels: {
      "nvidia.com/gpu.product": product,
      "nvidia.com/gpu.memory": String(memoryMiB),
      "nvidia.com/gpu.count": "1",
      "nvidia.com/gpu.compute.major": major,
      "nvidia.com/gpu.compute.minor": minor,
      "nvidia.com/gfd.timestamp": "1790000000",
      ...(product.includes("-MIG-") ? { "nvidia.com/mig.strategy": "single" } : {}),
    },
    capacity: { "nvidia.com/gpu": "1", [ANY_GPU]: "1" },
  };
}

export const NODE_CLASSES = {
  l40s: { ...nvidia("NVIDIA-L40S", 46_068, "8.9"), speed: 50 },
  a100: { ...nvidia("NVIDIA-A100-SXM4-40GB", 40_960, "8.0"), speed: 80 },
  l4: { ...nvidia("NVIDIA-L4", 23_034, "8.9"), speed: 20 },
  v100: { ...nvidia("Tesla-V100-SXM2-32GB", 32_768, "7.0") },
  slice: { ...nvidia("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 4_864, "8.0") },
  mi300x: {
    labels: {
      "amd.com/gpu.device-id": "74a1",
      "amd.com/gpu.vram": "191G",
      "amd.com/gpu.product-name": "MI300X",
    },
    capacity: { "amd.com/gpu": "1", [ANY_GPU]: "1" },
    speed: 90,
  },
} as const satisfies Readonly<Record<string, NodeClass>>;

export type NodeClassName = keyof typeof NODE_CLASSES;

/** 13 GiB of weights, which no slice holds. */
export function measuredModel(namespace: string): Model {
  return {
    apiVersion: API_VERSION,
    kind: "Model",
    metadata: { name: "measured", namespace },
    spec: {
      source: "https://models.example/measured.gguf",
      format: "gguf",
      hardware: { accelerator: "cuda", gpu: { count: 1, vendor: "nvidia", resourceName: ANY_GPU } },
      refreshPolicy: "IfNotPresent",
      prefetch: false,
    },
    status: { phase: "Ready", sha256: "c0ffee".repeat(10), weightsBytes: 13 * GIB },
  };
}

export function measuredService(namespace: string): InferenceService {
  return {
    apiVersion: API_VERSION,
    kind: "InferenceService",
    metadata: { name: "chat", namespace },
    spec: { modelRef: "measured", runtime: "llamacpp", suspend: true },
  } as unknown as InferenceService;
}

/** Results of the given classes, or of all that are measured. */
export function measuredTable(speeds: Partial<Record<NodeClassName, number>> = SPEEDS): ConfigMap {
  const model = measuredModel("default");
  const engine = { runtime: "llamacpp", gpusPerPod: 1 } as const;
  const subject = subjectOf(model, measuredService("default"), engine);
  if (subject === undefined) throw new Error("the model is not resolved");
  const data = Object.entries(speeds).map(([name, median]) => {
    const deviceClass = classOf(name as NodeClassName);
    const result: BenchmarkResult = {
      model: model.spec.source,
      deviceClass,
      machine: `${name}-0`,
      runtime: "llamacpp",
      build: "b9999",
      settings: subject.settings,
      measuredAt: "2026-11-26T10:00:00Z",
      tool: "requests",
      generation: { median, spread: 0.01, samples: [median] },
    };
    return [benchmarkKey(subject, deviceClass), JSON.stringify(result)];
  });
  return { metadata: { name: BENCHMARKS_NAME, namespace: NAMESPACE_SYSTEM }, data: Object.fromEntries(data) };
}

const SPEEDS = Object.fromEntries(
  Object.entries(NODE_CLASSES).flatMap(([name, one]) => ("speed" in one ? [[name, one.speed]] : [])),
);

export function classOf(name: NodeClassName): string {
  const { labels, capacity } = NODE_CLASSES[name];
  const node = { metadata: { name, labels }, status: { capacity, allocatable: capacity } };
  return deviceClassOf(devicesOfNode(node, [], undefined)) ?? "";
}

/** A pod as the controller makes it for the service. */
export function servicePod(name: string, namespace: string, resource = "nvidia.com/gpu") {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, labels: { [LABEL_SERVICE]: "chat" } },
    spec: {
      terminationGracePeriodSeconds: 0,
      containers: [{ name: "engine", image: "engine", resources: { limits: { [resource]: "1" } } }],
    },
  };
}
