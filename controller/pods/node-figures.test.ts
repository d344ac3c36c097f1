import { expect, test } from "vitest";
import { keyOf } from "../../src/api/names.ts";
import type { ConfigMap } from "../../src/kube/objects.ts";
import { nodeFiguresFor } from "./node-figures.ts";

const REPORT = { cpu: {}, gpus: [], runtimes: [], models: [], leftOut: [] };
const GPU = "nvidia.com/gpu";

/** What is known about a node with 4 GPUs, of which a pod uses one, for a service whose pods request `requested`. */
function figures(report: object | undefined, requested: object, cost?: string) {
  const template = (requests: object) => ({ containers: [{ name: "engine", resources: { requests } }] });
  const map = report && { data: { "node.json": JSON.stringify({ ...REPORT, ...report }) } };
  const pod = { metadata: { name: "other" }, spec: { nodeName: "node", ...template({ [GPU]: "1" }) } };
  const ended = { ...pod, status: { phase: "Failed" } };
  const node = {
    metadata: { name: "node", annotations: cost === undefined ? {} : { "metalbridge.dev/cost": cost } },
    status: { allocatable: { [GPU]: "4" } },
  };
  const reports = new Map([
    [keyOf({ namespace: "metalbridge-system", name: "metalbridge-node-node" }), map as unknown as ConfigMap],
  ]);
  const watches = {
    nodes: new Map([["node", node]]),
    nodeReports: reports,
    resourceSlicesOfNode: { of: () => [] },
    podsOfNode: { of: (name: string) => (name === "node" ? [pod, ended] : []) },
    benchmarks: new Map(),
  };
  const resolution = {
    runtime: "vllm",
    gpuCount: 1,
    workload: { deployment: { spec: { template: { spec: template(requested) } } } },
  };
  const about = { service: { spec: {} }, model: { spec: { source: "hf://org/chat" } }, resolution };
  type Arguments = Parameters<typeof nodeFiguresFor>;
  return nodeFiguresFor(watches as unknown as Arguments[0], about as unknown as Arguments[1])("node");
}

test.each<[string, object | undefined, object, number | undefined]>([
  ["by the report, which the extender reads too", { gpuUtilization: 0.7 }, { [GPU]: "1" }, 0.7],
  ["by the devices of pods without a report", undefined, { [GPU]: "1" }, 0.25],
  ["by the devices of pods if the report lacks it", {}, { [GPU]: "1" }, 0.25],
  ["by memory for pods without GPUs", { memory: { totalBytes: 8, availableBytes: 2 } }, { cpu: "1" }, 0.75],
])("utilization %s", (_, report, requested, expected) => {
  expect(figures(report, requested).utilization).toBe(expected);
});

test("an annotation that is no cost counts as none", () => {
  expect(figures(undefined, {}, "2").cost).toBe(2);
  expect(figures(undefined, {}, "much").cost).toBeUndefined();
});
