import { expect, test } from "vitest";
import {
  fitProbePod,
  isStaleProbePod,
  probeFailed,
  probeNodeFailure,
  readProbePod,
} from "../../controller/pods/workload/one-shot-pod.ts";
import { A100S, aHost, aNode, catalogRecords } from "../../fitness/density/fixtures/fleet.ts";
import { machineFromHost } from "../../fitness/density/place.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import {
  hostResult,
  matchingRecords,
  nodeResult,
  type RankRequest,
  rankPayload,
  renderPayload,
} from "./rank.ts";

const records = catalogRecords();
const GIB = 1024 ** 3;
const request = (more: Partial<RankRequest> = {}): RankRequest => ({
  model: "Qwen2.5-7B",
  minFit: "good",
  limit: 5,
  ...more,
});
const answer = (totalGib: number, availableGib = totalGib * 0.9) =>
  JSON.stringify({
    memory: { totalBytes: totalGib * GIB, availableBytes: Math.floor(availableGib * GIB) },
    cpu: { name: "AMD EPYC 9354", cores: 16, arch: "amd64" },
    gpus: [],
    runtimes: [],
    models: [],
    leftOut: [],
  });

function ask(node: Parameters<typeof nodeResult>[0], text: string, more: Partial<RankRequest> = {}) {
  const asked = request(more);
  const wanted = matchingRecords(records, asked.model);
  return nodeResult(node, { at: "answered", text, node: node.metadata.name }, records, wanted, asked);
}

test("a name means its model or its family, never a specialized model", () => {
  const names = (model: string) => [...matchingRecords(records, model)].map(({ name }) => name);
  expect(names("Qwen2.5-7B")).toEqual(["Qwen/Qwen2.5-7B-Instruct"]);
  expect(names("Qwen2.5").length).toBeGreaterThan(1);
  expect(names("Qwen2.5").filter((name) => /coder|vl|math/i.test(name))).toEqual([]);
  expect(names("Qwen2.5-.*")).toEqual([]);
  expect(names("x".repeat(1 << 20))).toEqual([]);
  for (const every of ["any", "Any", "*"]) expect(matchingRecords(records, every).size).toBe(records.length);
});

test("the best node comes first, and only nodes that a match fits are ranked", () => {
  const results = [
    ask(aNode("small"), answer(128, 2)),
    ask(aNode("cpu"), answer(64)),
    ask(aNode("gpu", { labels: A100S.labels, allocatable: A100S.allocatable }), answer(256)),
    hostResult(machineFromHost(aHost("mac")), records, matchingRecords(records, "Qwen2.5-7B"), request()),
  ];
  const payload = rankPayload(results, request());
  expect(payload).toMatchObject({
    requested_model: "Qwen2.5-7B",
    min_fit: "good",
    use_case: null,
    node_count: 4,
  });
  const { ranked_nodes } = payload;
  expect(ranked_nodes.map(({ node }) => node).sort()).toEqual(["cpu", "gpu", "mac"]);
  expect(ranked_nodes.at(-1)?.node).toBe("cpu");
  for (const { best_model, matched_count } of ranked_nodes)
    expect([best_model, matched_count]).toEqual(["Qwen/Qwen2.5-7B-Instruct", 1]);
  expect(Object.keys(ranked_nodes[0] ?? {})).toEqual([
    ...["node", "schedulable", "matched_count", "best_fit", "best_score", "best_model"],
    ...["best_runtime", "best_quant", "estimated_tps"],
  ]);
  expect(results[0]).toMatchObject({ node: "small", matched_count: 0, top: [] });
  expect(results[1]).toMatchObject({
    model_query: "Qwen2.5-7B",
    use_case: null,
    min_fit: "good",
    system: { system: { total_ram_gb: 64, cpu_name: "AMD EPYC 9354", has_gpu: false } },
  });
  expect(results[2]).toMatchObject({
    system: { system: { total_ram_gb: 256, cpu_cores: 16, has_gpu: true, backend: "CUDA" } },
  });
  expect(renderPayload(payload)).toContain("Qwen2.5-7B fits 3 of 4 nodes, good or better");
});

test("the answer is held against the Node: a lie is refused, and GPUs count as the device plugin offers them", () => {
  expect(ask(aNode("n"), answer(4096))).toMatchObject({
    error: "machine is unusable",
    reason: "MachineUnusable",
    message: "its node report says 4096.00 GiB of memory, its Node 128 GiB",
  });
  const gpu = {
    vendor: "nvidia",
    name: "NVIDIA A100-SXM4-80GB",
    memoryBytes: 80 * GIB,
    count: 4,
    unified: false,
  };
  const withGpus = JSON.stringify({ ...JSON.parse(answer(128, 100)), gpus: [gpu] });
  expect(ask(aNode("n"), withGpus)).toMatchObject({
    top: [{ memory_available_gb: 100 }],
    system: { system: { has_gpu: true, gpu_vram_gb: 80 } },
  });
  const plugin = aNode("n", { allocatable: A100S.allocatable });
  expect(ask(plugin, withGpus)).toMatchObject({ top: [{ memory_available_gb: 288 }] });
  expect(ask(plugin, answer(128))).toMatchObject({ message: "no label has the memory size of its GPUs" });
});

test("a cordoned node is ranked, and named as one", () => {
  const cordoned = { ...aNode("cpu"), spec: { unschedulable: true } };
  const wanted = matchingRecords(records, "Qwen2.5-7B");
  const drained = aHost("mac");
  drained.spec.drain = true;
  const payload = rankPayload(
    [
      ask(cordoned, answer(128)),
      hostResult(machineFromHost(drained), records, wanted, request()),
      ask(aNode("open"), answer(128)),
    ],
    request(),
  );
  expect(payload.ranked_nodes.map(({ node, schedulable }) => [node, schedulable])).toEqual([
    ["mac", false],
    ["cpu", false],
    ["open", true],
  ]);
  const text = renderPayload(payload);
  expect(text).toContain("cpu: unschedulable");
  expect(text).toContain("mac: unschedulable");
  expect(text).not.toContain("open: unschedulable");
});

test("what is free decides, and so do the level and the use case", () => {
  expect(ask(aNode("n"), answer(64, 2))).toMatchObject({ matched_count: 0 });
  expect(ask(aNode("n"), answer(64, 6), { minFit: "too_tight" })).toMatchObject({ matched_count: 1 });
  expect(ask(aNode("n"), answer(64), { useCase: "embedding" })).toMatchObject({ matched_count: 0 });
  expect(ask(aNode("n"), answer(64), { model: "any", limit: 2 })).toMatchObject({
    top: [expect.anything(), expect.anything()],
  });
});

test.each([
  "",
  "Segmentation fault",
  "[]",
  '{"memory":{"totalBytes":-1},"cpu":{},"gpus":[],"runtimes":[],"models":[],"leftOut":[]}',
  '{"memory":{"totalBytes":1e300},"cpu":{},"gpus":[],"runtimes":[],"models":[],"leftOut":[]}',
  answer(64).slice(0, 100),
])("the answer %j is an error of its node alone", (text) => {
  expect(ask(aNode("n"), text)).toMatchObject({
    node: "n",
    error: "probe output was not valid JSON",
    raw: text,
    message: expect.stringMatching(/^its node report /),
  });
});

test("a node without memory in its answer is unusable, a silent Host is not ranked", () => {
  const without = JSON.stringify({
    cpu: {},
    gpus: [],
    runtimes: [],
    models: [],
    leftOut: ["memory: MemTotal is missing"],
  });
  expect(ask(aNode("n"), without)).toMatchObject({ error: "machine is unusable", reason: "MachineUnusable" });
  const silent = aHost("mac", { status: { info: {}, memory: {}, conditions: [] } });
  const place = { ...machineFromHost(silent), staleReason: "its Lease expired" };
  const result = hostResult(place, records, matchingRecords(records, "any"), request());
  expect(result).toMatchObject({ node: "mac", kind: "Host", message: "its Lease expired" });
  expect(rankPayload([result], request()).ranked_nodes).toEqual([]);
});

const plan = {
  name: "p",
  namespace: "n",
  node: "node-1",
  image: "metalbridge:1",
  pullSecrets: [],
  deadlineSeconds: 180,
};
const pod = (status: Pod["status"]): Pod => {
  const planned = fitProbePod(plan);
  return status === undefined ? planned : { ...planned, status };
};
const ended = (exitCode: number, message: string): Pod["status"] => ({
  phase: exitCode === 0 ? "Succeeded" : "Failed",
  containerStatuses: [{ name: "probe", state: { terminated: { exitCode, reason: "Error", message } } }],
});

test("a pod with a runtime class asks NVIDIA's runtime for its tools; others ask for nothing", () => {
  const own = fitProbePod({ ...plan, runtimeClassName: "nvidia" }).spec;
  expect(own).toMatchObject({ runtimeClassName: "nvidia" });
  expect(own.containers[0]?.env).toContainEqual({ name: "NVIDIA_DRIVER_CAPABILITIES", value: "utility" });
  expect(JSON.stringify(fitProbePod(plan))).not.toMatch(/nvidia/i);
});

test("a pod's status is an answer, a failure, or waiting", () => {
  expect(readProbePod(pod(ended(0, "{}")))).toEqual({ at: "answered", text: "{}", node: "node-1" });
  expect(readProbePod(pod(ended(1, "no /proc")))).toEqual(probeFailed("Error", "no /proc"));
  expect(readProbePod(pod(ended(137, "")))).toEqual(probeFailed("Error", "exit code 137"));
  const late = { phase: "Failed", reason: "DeadlineExceeded", message: "was active too long" } as const;
  expect(readProbePod(pod(late))).toEqual(probeFailed("DeadlineExceeded", "was active too long"));
  const waiting = (reason: string): Pod["status"] => ({
    phase: "Pending",
    containerStatuses: [{ name: "probe", state: { waiting: { reason, message: "not found" } } }],
  });
  expect(readProbePod(pod(waiting("ImagePullBackOff")))).toMatchObject({ at: "failed" });
  expect(readProbePod(pod(waiting("ContainerCreating")))).toMatchObject({ at: "waiting" });
  expect(readProbePod(pod(undefined))).toMatchObject({ at: "waiting" });
  const unscheduled = { type: "PodScheduled", status: "False", message: "0/3 nodes are available" } as const;
  expect(readProbePod(pod({ phase: "Pending", conditions: [unscheduled] }))).toEqual({
    at: "waiting",
    why: "0/3 nodes are available",
  });
});

test("the container is found by its name, also while the proxy of a mesh keeps the pod running", () => {
  const proxy = { name: "istio-proxy", ready: true, state: { running: {} } };
  const beside = (status: Pod["status"]) =>
    pod({ phase: "Running", containerStatuses: [proxy, ...(status?.containerStatuses ?? [])] });
  expect(readProbePod(beside(ended(0, "{}")))).toMatchObject({ at: "answered", text: "{}" });
  expect(readProbePod(beside(ended(1, "no /proc")))).toEqual(probeFailed("Error", "no /proc"));
});

test("a node that cannot answer is not asked", () => {
  expect(probeNodeFailure(aNode("n"))).toBeUndefined();
  expect(probeNodeFailure(aNode("n", { isReady: false }))).toMatchObject({ reason: "NodeNotReady" });
  expect(probeNodeFailure({ metadata: { name: "n" } })).toMatchObject({ reason: "NodeNotReady" });
  expect(probeNodeFailure(undefined)).toMatchObject({ reason: "NodeDeleted" });
  const windows = { ...aNode("n"), status: { nodeInfo: { operatingSystem: "windows" } } };
  expect(probeNodeFailure(windows)).toMatchObject({ reason: "NodeNotLinux" });
});

test("a pod is left over a minute after its own deadline", () => {
  const creationTimestamp = "2026-01-01T00:00:00Z";
  const old = { ...fitProbePod(plan), metadata: { name: "p", creationTimestamp } };
  const at = Date.parse(creationTimestamp);
  expect(isStaleProbePod(old, at + 240_000)).toBe(false);
  expect(isStaleProbePod(old, at + 240_001)).toBe(true);
  expect(isStaleProbePod(fitProbePod(plan), at)).toBe(false);
});
