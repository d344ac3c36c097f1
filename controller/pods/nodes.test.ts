import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readCatalog } from "../../fitness/catalog/record.ts";
import { createFitness } from "../../fitness/fitness.ts";
import { isProbeUseful, reportFromProbe } from "./node-probes.ts";
import { judgeNodes, type NodeFigures, nodeChoiceOf, nodesCondition } from "./nodes.ts";

const { records } = readCatalog(readFileSync(new URL("../../catalog/models.jsonl", import.meta.url), "utf8"));
const fitness = createFitness(records);
const { readNode } = fitness;
const SOURCE = "hf://bartowski/Qwen2.5-32B-Instruct-GGUF/Qwen2.5-32B-Instruct-Q4_K_M.gguf";
const scorer = fitness.forReplica({ source: SOURCE, settings: { contextSize: 8192 } });
const CUDA = { accelerator: "cuda", gpus: 1 } as const;
const gpu = (name: string, product: string, gib: number | undefined, count = 1) =>
  readNode({
    metadata: {
      name,
      labels: {
        "kubernetes.io/hostname": `${name}.example`,
        "nvidia.com/gpu.product": product,
        ...(gib === undefined ? {} : { "nvidia.com/gpu.memory": String(gib * 1024) }),
      },
    },
    status: { allocatable: { "nvidia.com/gpu": String(count), memory: "64Gi" } },
  });
const NODES = [
  gpu("fast", "NVIDIA-H200", 141, 8),
  gpu("slow", "NVIDIA-RTX-A6000", 48),
  gpu("small", "NVIDIA-GeForce-RTX-4090", 16),
  gpu("dumb", "NVIDIA-Something", undefined),
  readNode({ metadata: { name: "cpu" }, status: { allocatable: { memory: "512Gi" } } }),
];

const FIGURES: Readonly<Record<string, NodeFigures>> = {
  fast: { measured: 50, utilization: 0.25, cost: 4 },
  slow: { measured: 45, utilization: 0, cost: 1 },
};

test("the choice prefers nodes by score, avoids nodes that are too small, and leaves unknown nodes to the scheduler", () => {
  const judged = judgeNodes(scorer, CUDA, NODES);
  expect(nodeChoiceOf(judged)).toEqual({
    avoid: ["small.example"],
    prefer: [
      { weight: 100, nodes: ["fast.example"] },
      { weight: expect.any(Number), nodes: ["slow.example"] },
    ],
  });
  const { status, message } = nodesCondition({ at: "judged", judged });
  expect(status).toBe("True");
  expect(message).toMatch(
    /^prefers: fast \(0.70: ([\d.]+) of \1 tokens\/s \(\w+\)\), slow \(0.*\); kept out: small \(offers 14.4 GiB of the 2\d(\.\d)? GiB it needs\); left to the scheduler: dumb \(no label has/,
  );
});

test("a node whose GPUs do not run the quantization is kept out with the reason, whatever its memory", () => {
  const labels = (major: string, minor: string) => ({
    "nvidia.com/gpu.product": "GPU",
    "nvidia.com/gpu.memory": String(80 * 1024),
    "nvidia.com/gpu.compute.major": major,
    "nvidia.com/gpu.compute.minor": minor,
  });
  const status = { allocatable: { "nvidia.com/gpu": "1" } };
  const nodes = [
    readNode({ metadata: { name: "v100", labels: labels("7", "0") }, status }),
    readNode({ metadata: { name: "l4", labels: labels("8", "9") }, status }),
    gpu("unlabeled", "NVIDIA-Something", 80),
  ];
  const kernel = { name: "AWQ", capability: 75 } as const;
  const judged = judgeNodes(scorer, { ...CUDA, kernel }, nodes);
  expect(judged.map(({ name, fit }) => [name, fit.at])).toEqual([
    ["l4", "fits"],
    ["unlabeled", "fits"],
    ["v100", "unsupported"],
  ]);
  expect(nodeChoiceOf(judged).avoid).toEqual(["v100"]);
  expect(nodesCondition({ at: "judged", judged }).message).toContain(
    "kept out: v100 (GPU sm_70 is older than compute capability 7.5, which AWQ needs: Turing (T4) or later)",
  );
  const old = judged.filter(({ name }) => name === "v100");
  expect(nodesCondition({ at: "judged", judged: old })).toMatchObject({
    status: "False",
    reason: "NoNodeFits",
  });
});

test("the architecture is that of the report where no label states it", () => {
  const found = { name: "V100", vendor: "nvidia", unified: false, count: 1, arch: "sm_70" } as const;
  const report = { cpu: {}, gpus: [found], runtimes: [], models: [], leftOut: [] };
  const node = { metadata: { name: "n" }, status: { allocatable: { "nvidia.com/gpu": "1" } } };
  expect(readNode(node, { at: "known", report }).gpus?.arch).toBe("sm_70");
});

test("the condition says so if pods get no preferences because of their required terms", () => {
  const judged = judgeNodes(scorer, CUDA, NODES);
  expect(nodesCondition({ at: "judged", judged, hasSeveralTerms: true }).message).toMatch(
    /^scores: fast .*; pods get no preferences, because they have several required node selector terms .*; kept out: small/,
  );
});

test("measured speed, load and cost decide, and an unknown figure counts as neither good nor bad", () => {
  const judged = judgeNodes(scorer, CUDA, NODES, (name) => FIGURES[name] ?? {});
  expect(nodeChoiceOf(judged).prefer).toEqual([
    { weight: 100, nodes: ["slow.example"] },
    { weight: 80, nodes: ["fast.example"] },
  ]);
  expect(nodesCondition({ at: "judged", judged }).message).toMatch(
    /^prefers: slow \(0.60: 45 of 50 tokens\/s \(measured\), 0% in use, cost 1 of 4\), fast \(0.55: .*25% in use, cost 4 of 4\); kept out/,
  );
  // The class of this node was measured, so the model runs there.
  const dumb = judgeNodes(scorer, CUDA, NODES, (name) => (name === "dumb" ? { measured: 200 } : {}));
  expect(nodeChoiceOf(dumb).prefer[0]).toEqual({ weight: 100, nodes: ["dumb.example"] });
  const partly = judgeNodes(scorer, CUDA, NODES, (name) => (name === "fast" ? { cost: 3 } : {}));
  expect(nodesCondition({ at: "judged", judged: partly }).message).toMatch(
    /fast \(0.60: .*cost 3 of 3\); an unknown speed or cost counts as half|slow \(.*cost unknown\).*; an unknown speed or cost counts as half/,
  );
});

test("nonsense figures count as unknown", () => {
  const judged = judgeNodes(scorer, CUDA, NODES, () => ({ utilization: -1, cost: Number.NaN }));
  expect(nodeChoiceOf(judged)).toEqual(nodeChoiceOf(judgeNodes(scorer, CUDA, NODES)));
});

test.each([
  ["no node has the GPUs", [NODES[4]], "Unknown NoNodes"],
  ["every node is too small", [NODES[2]], "False NoNodeFits"],
  ["nothing is known of any", [NODES[3]], "Unknown NodesUnknown"],
])("%s", (_, nodes, expected) => {
  const judged = judgeNodes(
    scorer,
    CUDA,
    nodes.flatMap((node) => node ?? []),
  );
  const { status, reason } = nodesCondition({ at: "judged", judged });
  expect(`${status} ${reason}`).toBe(expected);
});

test("a model that the catalog does not have is kept off nodes by its header, and no node is preferred", () => {
  const claimBytes = () => 30 * 1024 ** 3;
  const own = fitness.forReplica({ source: "https://models.example/mine.gguf", settings: {}, claimBytes });
  const judged = judgeNodes(own, CUDA, NODES);
  expect(nodeChoiceOf(judged)).toEqual({ avoid: ["small.example"], prefer: [] });
  expect(nodesCondition({ at: "judged", judged }).message).toContain(
    "fits: fast, slow; no speed is measured, and the catalog does not have the model, so they are not scored",
  );
});

test("pods that leave a node avoid it and nodes that are no better, however many are too small", () => {
  const small = Array.from({ length: 300 }, (_, index) => gpu(`s${index}`, "NVIDIA-GeForce-RTX-4090", 16));
  const judged = judgeNodes(scorer, CUDA, [...small, ...NODES, gpu("third", "NVIDIA-RTX-A6000", 48)]);
  const { avoid, prefer } = nodeChoiceOf(judged, new Set(["third", "slow"]));
  expect(avoid).toHaveLength(256);
  expect(avoid).toEqual(expect.arrayContaining(["slow.example", "third.example"]));
  expect(prefer.flatMap(({ nodes }) => nodes)).toEqual(["fast.example"]);
  const few = judgeNodes(scorer, CUDA, NODES);
  expect(nodeChoiceOf(few, new Set(["fast", "slow"]))).toEqual({
    avoid: ["fast.example", "slow.example", "small.example"],
    prefer: [],
  });
});

test("NVIDIA's nodes are probed with its runtime only, and an answer that leaves a node unknown is refused", () => {
  const nvidia = gpu("dumb", "NVIDIA-Something", undefined);
  const amd = {
    metadata: { name: "amd" },
    status: { allocatable: { "amd.com/gpu": "1", memory: "64Gi" } },
  };
  const asked = (runtimeClassName?: string) =>
    [nvidia, readNode(amd), gpu("known", "NVIDIA-H200", 141)].map((node) =>
      isProbeUseful(fitness, node, runtimeClassName),
    );
  expect([asked(), asked("nvidia")]).toEqual([
    [false, true, false],
    [true, true, false],
  ]);
  const answer = (gpus: readonly object[]) =>
    JSON.stringify({
      memory: { totalBytes: 2 ** 36, availableBytes: 2 ** 34 },
      cpu: {},
      gpus,
      runtimes: [],
      models: [],
      leftOut: [],
    });
  const unknown = { why: "no label has the memory size of its GPUs" };
  const found = { vendor: "amd", name: "MI300X", count: 1, unified: false };
  const whole = reportFromProbe(fitness, amd, answer([{ ...found, memoryBytes: 192 * 1024 ** 3 }]));
  expect(JSON.parse("report" in whole ? whole.report : "")).toMatchObject({
    memory: { totalBytes: 2 ** 36 },
    gpus: [{ name: "MI300X" }],
  });
  expect(whole).not.toMatchObject({ report: expect.stringContaining("availableBytes") });
  expect(reportFromProbe(fitness, amd, answer([found]))).toEqual(unknown);
  expect(reportFromProbe(fitness, amd, answer([]))).toEqual(unknown);
  expect(reportFromProbe(fitness, amd, "{")).toEqual({ why: "its node report is not JSON" });
});
