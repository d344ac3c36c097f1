import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readCatalog } from "../../../fitness/catalog/record.ts";
import { createFitness } from "../../../fitness/fitness.ts";
import { isProbeUseful, reportFromProbe } from "./node-probes.ts";
import { judgeNodes, type NodeChoiceInput, nodeChoiceOf, nodesCondition, settleNodeChoice } from "./nodes.ts";
import { isMakingRoom } from "./pods.ts";

const { records } = readCatalog(
  readFileSync(new URL("../../../catalog/models.jsonl", import.meta.url), "utf8"),
);
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

test("the choice prefers nodes by score, avoids nodes that are too small, and leaves unknown nodes to the scheduler", () => {
  const judged = judgeNodes(scorer, CUDA, NODES);
  const { avoid, prefer } = nodeChoiceOf(judged);
  expect(avoid).toEqual(["small.example"]);
  expect(prefer.flatMap(({ nodes }) => nodes)).toEqual(["fast.example", "slow.example"]);
  expect(prefer.every(({ weight }) => weight >= 1 && weight <= 100 && weight % 5 === 0)).toBe(true);
  const { status, message } = nodesCondition({ at: "judged", judged });
  expect(status).toBe("True");
  expect(message).toMatch(
    /^prefers: fast \(score \d+ of 100, \d+ tokens\/s \w+\), slow \(score .*\); kept out: small \(offers 14.4 GiB of the 2\d(\.\d)? GiB it needs\); left to the scheduler: dumb \(no label has/,
  );
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
    "fits: fast, slow; the catalog does not have the model, so they are not scored",
  );
});

test("pods that leave a node avoid it and nodes that are no better, however many are too small", () => {
  const small = Array.from({ length: 300 }, (_, index) => gpu(`s${index}`, "NVIDIA-GeForce-RTX-4090", 16));
  const judged = judgeNodes(scorer, CUDA, [...small, ...NODES, gpu("third", "NVIDIA-RTX-A6000", 48)]);
  const { avoid, prefer } = nodeChoiceOf(judged, new Set(["third"]), new Set(["slow"]));
  expect(avoid).toHaveLength(256);
  expect(avoid).toEqual(expect.arrayContaining(["slow.example", "third.example"]));
  expect(prefer.flatMap(({ nodes }) => nodes)).toEqual(["fast.example"]);
  const few = judgeNodes(scorer, CUDA, NODES);
  expect(nodeChoiceOf(few, new Set(["fast"]), new Set(["slow"]))).toEqual({
    avoid: ["fast.example", "slow.example", "small.example"],
    prefer: [],
  });
});

const JUDGED = judgeNodes(scorer, CUDA, NODES);
const CHOSEN = nodeChoiceOf(JUDGED);
const NOW = "2026-01-01T00:00:00Z";
const AWAY = nodeChoiceOf(JUDGED, new Set(["slow"]));
const WIDER = { avoid: ["fast.example", "small.example"], prefer: [] };
/** Pods serve by a choice that is still the right one, and nothing else changes. */
const CALM: NodeChoiceInput = {
  before: CHOSEN,
  fresh: CHOSEN,
  isTemplateSame: true,
  judged: JUDGED,
  leaving: new Set(),
  pods: {
    isServing: true,
    isWaiting: false,
    isRoomMade: false,
    hasOld: false,
    isRollingOut: false,
    on: ["slow"],
  },
  move: undefined,
  hasMoveStrategy: false,
  nowMs: Date.parse(NOW),
};
const settled = ({
  pods,
  ...rest
}: Omit<Partial<NodeChoiceInput>, "pods"> & { pods?: Partial<NodeChoiceInput["pods"]> }) =>
  settleNodeChoice({ ...CALM, ...rest, pods: { ...CALM.pods, ...pods } });

test("a choice changes with the template, or if pending pods now fit an avoided node", () => {
  const other = { ...CHOSEN, prefer: [] };
  const narrower = { avoid: [...CHOSEN.avoid, "young.example"].sort(), prefer: [] };
  const fewer = { ...CHOSEN, avoid: [] };
  expect(settled({ fresh: other })).toEqual({ choice: CHOSEN });
  expect(settled({ fresh: other, isTemplateSame: false })).toEqual({ choice: other });
  expect(settled({ before: undefined })).toEqual({ choice: CHOSEN });
  const isWaiting = true;
  // A node that is too small has joined, one has left, or one is no longer known.
  for (const fresh of [other, narrower, fewer])
    expect(settled({ fresh, pods: { isWaiting } })).toEqual({ choice: CHOSEN });
  expect(settled({ before: WIDER })).toEqual({ choice: WIDER });
  expect(settled({ before: WIDER, pods: { isWaiting } })).toEqual({ choice: CHOSEN, move: { since: NOW } });
  // Where none serves, or during a rollout, pods are replaced as the service says.
  expect(settled({ before: WIDER, pods: { isWaiting, isServing: false } })).toEqual({ choice: CHOSEN });
  expect(settled({ before: WIDER, pods: { isWaiting, isRollingOut: true } })).toEqual({ choice: CHOSEN });
});

test("without fitness an earlier choice holds until the template changes, or until pods wait because of it", () => {
  const without = { fresh: { avoid: [], prefer: [] }, judged: undefined };
  expect(settled(without)).toEqual({ choice: CHOSEN });
  expect(settled({ ...without, isTemplateSame: false })).toEqual({ choice: without.fresh });
  const isWaiting = true;
  expect(settled({ ...without, pods: { isWaiting, isServing: false } })).toEqual({ choice: without.fresh });
  expect(settled({ ...without, before: without.fresh, pods: { isWaiting } })).toEqual({
    choice: without.fresh,
  });
});

test("a move continues from the Deployment's annotation until no old pod is left, without state in the process", () => {
  const leaving = new Set(["slow"]);
  const move = { since: NOW, before: CHOSEN };
  expect(settled({ fresh: AWAY, leaving })).toEqual({ choice: AWAY, move });
  // A pod of it is seen before the Deployment that made it.
  expect(settled({ fresh: AWAY, leaving, pods: { hasOld: true } })).toEqual({ choice: AWAY, move });
  // No pod is left on the node, or another leader decides: an old one elsewhere still serves.
  const nowMs = CALM.nowMs + 60_000;
  const after = { before: AWAY, move, nowMs, pods: { hasOld: true } };
  expect(settled(after)).toEqual({ choice: AWAY, move, recheckAfterMs: 1_740_000 });
  // What changes meanwhile is no reason to begin again.
  const fresh = { avoid: ["slow.example"], prefer: [] };
  expect(settled({ ...after, leaving, fresh }).choice).toEqual(AWAY);
  expect(settled({ ...after, pods: { hasOld: false } })).toEqual({ choice: AWAY });
});

test("a move whose annotation is lost or unreadable still stops no pod that serves", () => {
  const lost = { before: AWAY, fresh: AWAY, hasMoveStrategy: true };
  const hasOld = true;
  expect(settled({ ...lost, pods: { hasOld } })).toEqual({ choice: AWAY, move: { since: NOW } });
  expect(settled({ ...lost, pods: { hasOld, isServing: false } })).toEqual({ choice: AWAY });
  expect(settled(lost)).toEqual({ choice: AWAY });
  expect(settled({ ...lost, isTemplateSame: false, pods: { hasOld } })).toEqual({ choice: AWAY });
  expect(settled({ ...lost, hasMoveStrategy: false, pods: { hasOld } })).toEqual({ choice: AWAY });
});

test("a move with a start in the future takes no longer than another", () => {
  const move = { since: "2999-01-01T00:00:00Z", before: CHOSEN };
  const on = { before: AWAY, fresh: CHOSEN, move, pods: { hasOld: true } };
  expect(settled(on)).toEqual({ choice: AWAY, move, recheckAfterMs: 1_800_000 });
  expect(settled({ ...on, before: CHOSEN })).toEqual({ choice: CHOSEN, move, recheckAfterMs: 1_800_000 });
});

test("a move returns to the earlier choice with one additional pod if pods find no node or are not Ready in time", () => {
  const move = { since: NOW, before: CHOSEN };
  const on = { before: AWAY, fresh: CHOSEN, move };
  const waits = { hasOld: true, isWaiting: true };
  expect(settled({ ...on, pods: waits })).toEqual({ choice: CHOSEN, move, blocked: "NoNode" });
  expect(settled({ ...on, pods: { ...waits, isRoomMade: true } })).toMatchObject({ choice: AWAY, move });
  const late = { ...on, nowMs: CALM.nowMs + 1_800_000, pods: { hasOld: true } };
  const home = { since: "2026-01-01T00:30:00Z", before: CHOSEN };
  expect(settled(late)).toEqual({ choice: CHOSEN, move: home, blocked: "NotReady" });
  // Until the pods of the move are gone, or for as long again; their node is not left again because they wait.
  const back = { ...late, before: CHOSEN, fresh: AWAY, move: home };
  expect(settled({ ...back, pods: waits })).toEqual({
    choice: CHOSEN,
    move: home,
    recheckAfterMs: 1_800_000,
  });
  expect(settled({ ...back, pods: { isWaiting: true } })).toEqual({ choice: CHOSEN });
  expect(settled({ ...back, nowMs: CALM.nowMs + 3_600_000, pods: waits })).toEqual({ choice: CHOSEN });
});

test("a move does not return where no pod is on a node that it leaves", () => {
  const on = { before: AWAY, fresh: CHOSEN, move: { since: NOW, before: CHOSEN } };
  const waits = { hasOld: true, isWaiting: true, on: ["fast"] };
  const stays = { choice: AWAY, move: { since: NOW } };
  expect(settled({ ...on, pods: waits })).toEqual(stays);
  expect(settled({ ...on, before: AWAY, fresh: AWAY, move: stays.move, pods: waits })).toEqual(stays);
  expect(settled({ ...on, pods: { ...waits, on: [] } })).toEqual(stays);
});

test("a pod that is being deleted makes room, as does one that others are preempted for", () => {
  const pod = { metadata: { name: "chat" }, spec: { containers: [] } };
  const deletionTimestamp = NOW;
  expect(isMakingRoom(pod)).toBe(false);
  expect(isMakingRoom({ ...pod, metadata: { ...pod.metadata, deletionTimestamp } })).toBe(true);
  expect(isMakingRoom({ ...pod, status: { nominatedNodeName: "fast" } })).toBe(true);
});

test("no move begins while pods wait, or during a rollout", () => {
  const leaving = new Set(["slow"]);
  const begin = (pods: Partial<NodeChoiceInput["pods"]>) => settled({ fresh: AWAY, leaving, pods });
  expect(begin({ isWaiting: true })).toEqual({ choice: CHOSEN, blocked: "NoNode" });
  expect(begin({ hasOld: true, isRollingOut: true })).toEqual({ choice: CHOSEN, blocked: "RollingOut" });
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
