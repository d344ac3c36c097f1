import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createMatcher } from "../../../src/fitness/catalog/match.ts";
import { readCatalog } from "../../../src/fitness/catalog/record.ts";
import { readNode } from "../../../src/fitness/node.ts";
import { needOf } from "../../../src/fitness/replica-fit.ts";
import { canAnswer, reportIn } from "./node-probes.ts";
import { choiceOf, judgeNodes, nodesCondition, settle } from "./nodes.ts";

const { records } = readCatalog(
  readFileSync(new URL("../../../catalog/models.jsonl", import.meta.url), "utf8"),
);
const match = createMatcher(records);
const SOURCE = "hf://bartowski/Qwen2.5-32B-Instruct-GGUF/Qwen2.5-32B-Instruct-Q4_K_M.gguf";
const need = needOf({ source: SOURCE, match, settings: { contextSize: 8192 } });
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

test("prefers nodes by score, keeps out what is too small, and leaves the unknown to the scheduler", () => {
  const judged = judgeNodes(need, CUDA, NODES);
  const { avoid, prefer } = choiceOf(judged);
  expect(avoid).toEqual(["small.example"]);
  expect(prefer.flatMap(({ nodes }) => nodes)).toEqual(["fast.example", "slow.example"]);
  expect(prefer.every(({ weight }) => weight >= 1 && weight <= 100 && weight % 5 === 0)).toBe(true);
  const { status, message } = nodesCondition({ at: "judged", judged });
  expect(status).toBe("True");
  expect(message).toMatch(
    /^prefers: fast \(score \d+ of 100, \d+ tokens\/s \w+\), slow \(score .*\); kept out: small \(offers 14.4 GiB of the 2\d(\.\d)? GiB it needs\); left to the scheduler: dumb \(no label says/,
  );
});

test.each([
  ["no node has the GPUs", [NODES[4]], "Unknown NoNodes"],
  ["every node is too small", [NODES[2]], "False NoNodeFits"],
  ["nothing is known of any", [NODES[3]], "Unknown NodesUnknown"],
])("%s", (_, nodes, expected) => {
  const judged = judgeNodes(
    need,
    CUDA,
    nodes.flatMap((node) => node ?? []),
  );
  const { status, reason } = nodesCondition({ at: "judged", judged });
  expect(`${status} ${reason}`).toBe(expected);
});

test("a model that the catalogue does not have is kept off nodes by its header, and no node is preferred", () => {
  const claimBytes = () => 30 * 1024 ** 3;
  const own = needOf({ source: "https://models.example/mine.gguf", match, settings: {}, claimBytes });
  const judged = judgeNodes(own, CUDA, NODES);
  expect(choiceOf(judged)).toEqual({ avoid: ["small.example"], prefer: [] });
  expect(nodesCondition({ at: "judged", judged }).message).toContain(
    "fits: fast, slow; the catalogue does not have the model, so they are not scored",
  );
});

test("a choice changes with the template, or where pods wait and another set of nodes is kept out", () => {
  const before = { avoid: ["a"], prefer: [{ weight: 80, nodes: ["b"] }] };
  const other = { avoid: ["a"], prefer: [{ weight: 75, nodes: ["b"] }] };
  const wider = { avoid: [], prefer: [{ weight: 80, nodes: ["b"] }] };
  const at = (fresh: typeof before, isWaiting: boolean, isTemplateSame = true) =>
    settle({ before, fresh, isTemplateSame, isWaiting, isMoving: false });
  expect(at(other, false)).toBe(before);
  expect(at(other, true)).toBe(before);
  expect(at(wider, false)).toBe(before);
  expect(at(wider, true)).toBe(wider);
  expect(at(other, false, false)).toBe(other);
  expect(
    settle({ before: undefined, fresh: other, isTemplateSame: true, isWaiting: false, isMoving: false }),
  ).toBe(other);
  const away = { before, fresh: wider, isTemplateSame: true, isWaiting: false, isMoving: true };
  expect(settle(away)).toBe(wider);
});

test("NVIDIA's nodes are probed with its runtime only, and an answer that leaves a node unknown is refused", () => {
  const nvidia = gpu("dumb", "NVIDIA-Something", undefined);
  const amd = readNode({
    metadata: { name: "amd" },
    status: { allocatable: { "amd.com/gpu": "1", memory: "64Gi" } },
  });
  const asked = (runtimeClassName?: string) =>
    [nvidia, amd, gpu("known", "NVIDIA-H200", 141)].map((node) => canAnswer(node, runtimeClassName));
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
  const unknown = { why: "no label says how much memory its GPUs have" };
  const found = { vendor: "amd", name: "MI300X", count: 1, unified: false };
  const whole = reportIn(amd, answer([{ ...found, memoryBytes: 192 * 1024 ** 3 }]));
  expect(JSON.parse("report" in whole ? whole.report : "")).toMatchObject({
    memory: { totalBytes: 2 ** 36 },
    gpus: [{ name: "MI300X" }],
  });
  expect(whole).not.toMatchObject({ report: expect.stringContaining("availableBytes") });
  expect(reportIn(amd, answer([found]))).toEqual(unknown);
  expect(reportIn(amd, answer([]))).toEqual(unknown);
  expect(reportIn(amd, "{")).toEqual({ why: "its node report is not JSON" });
});
