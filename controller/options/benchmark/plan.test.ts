import { expect, test } from "vitest";
import { NO_BENCHMARKS } from "../../../src/capacity/benchmark/table.ts";
import { testGoldens } from "../../../test/golden/golden.ts";
import { HOUR_MS, measurement, plan, type ShortInput, settings, shown } from "./fixtures/plan-input.ts";
import type { JobState } from "./job.ts";
import { type BenchmarksPlan, NO_MEMORY, planBenchmarks } from "./plan.ts";
import type { Target } from "./targets.ts";

testGoldens(new URL("golden-plan/", import.meta.url).pathname, (input: ShortInput) => shown(plan(input)));

const chat = { models: [{ name: "chat" }] };
const failed = { phase: "Failed", reason: "BenchmarkEngineFailed", message: "no llama-bench; install it" };
const orderedOn = ({ planned }: { readonly planned: BenchmarksPlan }) => [...planned.orders.keys()];

test("a machine does not repeat a failed order for a day, unless its build changes or it gets the weights", () => {
  const host = { name: "mac-1", class: "m4" };
  const after = plan({ ...chat, hosts: [{ ...host, order: "chat", state: failed }] });
  expect(orderedOn(after)).toEqual([]);
  expect(after.planned.failed).toMatchObject([{ code: "BenchmarkEngineFailed" }]);
  const { memory } = after.planned;
  expect(orderedOn(plan({ ...chat, hosts: [host] }, memory, 23 * HOUR_MS))).toEqual([]);
  expect(orderedOn(plan({ ...chat, hosts: [{ ...host, build: "b2" }] }, memory, HOUR_MS))).toEqual(["mac-1"]);
  expect(orderedOn(plan({ ...chat, hosts: [host] }, memory, 24 * HOUR_MS))).toEqual(["mac-1"]);
  const stored = ["hf://org/chat/chat.gguf"];
  expect(orderedOn(plan({ ...chat, hosts: [{ ...host, stored }] }, memory, HOUR_MS))).toEqual(["mac-1"]);
});

test("runs that differ too much are no result: another machine measures, and the same one after an hour", () => {
  const { generation, ...rest } = measurement("b1", 880);
  const noisy = { phase: "Done", result: { ...rest, generation: { ...generation, spread: 4.29 } } };
  const host = { name: "mac-1", class: "m4" };
  const measured = { ...host, order: "chat", state: noisy };
  const alone = plan({ ...chat, hosts: [measured] });
  expect(alone.planned.store.size).toBe(0);
  expect(alone.planned.failed).toMatchObject([
    {
      code: "BenchmarkUnstable",
      message: expect.stringContaining("its runs differ by 429% of their median"),
    },
  ]);
  expect([...alone.planned.states.values()]).toMatchObject([{ at: "pending" }]);
  expect(orderedOn(alone)).toEqual([]);
  expect(orderedOn(plan({ ...chat, hosts: [measured, { ...host, name: "mac-2" }] }))).toEqual(["mac-2"]);
  const { memory } = alone.planned;
  expect(orderedOn(plan({ ...chat, hosts: [host] }, memory, HOUR_MS - 1))).toEqual([]);
  expect(orderedOn(plan({ ...chat, hosts: [host] }, memory, HOUR_MS))).toEqual(["mac-1"]);
});

test("a speed that the class cannot have is no result: another machine measures", () => {
  const host = { name: "mac-1", class: "m4" };
  const hostile = { ...host, order: "chat", measured: 99_000 };
  const alone = plan({ ...chat, hosts: [hostile] });
  expect(alone.planned.store.size).toBe(0);
  expect(alone.planned.failed).toMatchObject([
    {
      code: "BenchmarkImplausible",
      message: expect.stringContaining("99000 tokens/s; machines of its class"),
    },
  ]);
  expect(orderedOn(plan({ ...chat, hosts: [hostile, { ...host, name: "mac-2" }] }))).toEqual(["mac-2"]);
  const unknown = plan({ ...chat, hosts: [{ ...hostile, class: "m9" }] });
  expect(unknown.planned.store.size).toBe(1);
});

test("a failure that the agent still reports is reported once", () => {
  const input = { ...chat, hosts: [{ name: "mac-1", class: "m4", order: "chat", state: failed }] };
  const first = plan(input);
  const second = plan(input, first.planned.memory, 1_000);
  expect(second.planned.failed).toEqual([]);
  expect(orderedOn(second)).toEqual([]);
});

test("an order moves from a busy host to an idle one of the class after 15 minutes", () => {
  const waiting = { phase: "Waiting", reason: "HostBusy", message: "replica apps/a is in phase Ready" };
  const input = {
    ...chat,
    hosts: [
      { name: "mac-1", class: "m4", busy: true, order: "chat", state: waiting },
      { name: "mac-2", class: "m4" },
    ],
  };
  const first = plan(input);
  expect(orderedOn(first)).toEqual(["mac-1"]);
  expect(first.planned.recheckAfterMs).toBe(15 * 60_000);
  const { memory } = first.planned;
  expect(orderedOn(plan(input, memory, 14 * 60_000))).toEqual(["mac-1"]);
  expect(orderedOn(plan(input, memory, 15 * 60_000))).toEqual(["mac-2"]);
});

test("an agent that does not answer an order fails it", () => {
  const input = { ...chat, hosts: [{ name: "mac-1", class: "m4", order: "chat" }] };
  const { memory } = plan(input).planned;
  const late = plan(input, memory, 15 * 60_000);
  expect(late.planned.failed).toMatchObject([{ code: "BenchmarkTimedOut" }]);
  expect(orderedOn(late)).toEqual([]);
});

test("a plan whose orders were carried out is stable", () => {
  const input = {
    ...chat,
    hosts: [
      { name: "mac-1", class: "m4" },
      { name: "mac-2", class: "m4" },
    ],
  };
  const { planned } = plan(input);
  const again = plan(
    {
      ...chat,
      hosts: [
        { name: "mac-1", class: "m4", order: "chat" },
        { name: "mac-2", class: "m4" },
      ],
    },
    planned.memory,
    5,
  );
  expect(orderedOn(again)).toEqual(["mac-1"]);
});

const cuda = { accelerator: "cuda" };
const gpuNode = { name: "gpu-1", class: "nvidia-l4" };
const running: JobState = { at: "running" };
const createdBy = ({ planned }: { readonly planned: BenchmarksPlan }) =>
  planned.createJobs.map(({ job: { metadata, spec } }) => [
    metadata.namespace,
    spec.template.spec.nodeSelector?.["kubernetes.io/hostname"],
  ]);

test("a Job has nothing of a service in another namespace with the same content", () => {
  const service = { modelRef: "twin", namespace: "other", runtime: "llamacpp" };
  const { planned } = plan({
    models: [
      { name: "chat", sha: "same", ...cuda },
      { name: "twin", sha: "same", namespace: "other", ...cuda },
    ],
    services: [{ ...service, imagePullSecrets: [{ name: "theirs" }], resources: { memory: "99Gi" } }],
    nodes: [gpuNode],
  });
  expect(planned.createJobs.map(({ job: { metadata } }) => metadata.namespace)).toEqual(["apps"]);
  expect(JSON.stringify(planned.createJobs)).not.toMatch(/theirs|99Gi/);
});

test("a Model that is excluded lends no machine to another one with the same content", () => {
  const twins = [
    { name: "chat", sha: "same", off: true, ...cuda },
    { name: "twin", sha: "same", namespace: "other", ...cuda },
  ];
  expect(createdBy(plan({ models: twins, nodes: [gpuNode] }))).toEqual([["other", "gpu-1"]]);
});

test("pods with another accelerator or GPU resource have their own results", () => {
  const chat = { name: "chat", sha: "same", accelerator: "cuda" };
  const input = { models: [chat, { ...chat, name: "twin", accelerator: "vulkan" }], nodes: [gpuNode] };
  expect(plan(input).targets).toHaveLength(2);
});

test("a Job for a Model of another namespace gives no result and holds no slot", () => {
  const models = [
    { name: "chat", sha: "same", ...cuda },
    { name: "twin", sha: "same", namespace: "other", ...cuda },
  ];
  const measured: JobState = { at: "done", measurement: measurement("server-cuda-b11669", 999) };
  for (const state of [running, measured]) {
    const after = plan({
      models,
      nodes: [gpuNode],
      jobs: [{ node: "gpu-1", class: "nvidia-l4", state, owner: "twin" }],
    });
    expect(after.planned.store.size).toBe(0);
    expect(createdBy(after)).toEqual([["apps", "gpu-1"]]);
  }
});

test.each<[string, object, readonly string[]]>([
  [
    "has a taint that its pods do not tolerate",
    { taints: [{ key: "team", value: "a", effect: "NoSchedule" }] },
    [],
  ],
  ["evicts pods that do not tolerate its taint", { taints: [{ key: "team", effect: "NoExecute" }] }, []],
  ["has the taint of its GPUs", { taints: [{ key: "nvidia.com/gpu", effect: "NoSchedule" }] }, ["gpu-1"]],
  ["prefers other pods", { taints: [{ key: "team", effect: "PreferNoSchedule" }] }, ["gpu-1"]],
  ["is under pressure", { taints: [{ key: "node.kubernetes.io/disk-pressure", effect: "NoSchedule" }] }, []],
  ["runs a service on its only GPU", { inUse: 1 }, []],
  ["runs a service on one of two GPUs", { gpus: 2, inUse: 1 }, ["gpu-1"]],
])("a node that %s", (_what, node, expected) => {
  const after = plan({ models: [{ name: "chat", ...cuda }], nodes: [{ ...gpuNode, ...node }] });
  expect(createdBy(after).map(([, name]) => name)).toEqual(expected);
});

test("a Job that no node had room for does not count as a failure, and is retried after an hour", () => {
  const models = [{ name: "chat", ...cuda }];
  const state: JobState = {
    at: "failed",
    code: "BenchmarkTimedOut",
    message: "the benchmark did not finish within 1800 s; last: not scheduled: 0/1 nodes",
    isUnscheduled: true,
  };
  const jobs = [{ node: "gpu-1", class: "nvidia-l4", state }];
  const after = plan({ models, nodes: [gpuNode], jobs });
  expect([...after.planned.states.values()]).toMatchObject([
    { at: "pending", why: expect.stringMatching(/not scheduled: 0\/1 nodes; .*after an hour/) },
  ]);
  expect(after.planned.recheckAfterMs).toBe(HOUR_MS);
  const { memory } = after.planned;
  expect(createdBy(plan({ models, nodes: [gpuNode] }, memory, HOUR_MS - 1))).toEqual([]);
  expect(createdBy(plan({ models, nodes: [gpuNode] }, memory, HOUR_MS))).toEqual([["apps", "gpu-1"]]);
});

test("a Model with a Secret is measured only on hosts that have its weights", () => {
  const hosts = [
    { name: "mac-1", class: "m4" },
    { name: "mac-2", class: "m4", stored: ["hf://org/chat/chat.gguf"] },
    { name: "mac-3", class: "m2" },
  ];
  const after = plan({ models: [{ name: "chat", spec: { sourceSecretRef: { name: "hub" } } }], hosts });
  expect(orderedOn(after)).toEqual(["mac-2"]);
  expect(after.targets).toHaveLength(1);
});

test("a Model that cannot be read is skipped, and the others are measured", () => {
  const input = {
    models: [{ name: "odd", source: "nonsense://x", spec: { format: "gguf" } }, { name: "chat" }],
    hosts: [{ name: "mac-1", class: "m4" }],
  };
  expect(orderedOn(plan(input))).toEqual(["mac-1"]);
});

test("any error of building a Job fails its target only", () => {
  const { targets } = plan({
    models: [
      { name: "chat", accelerator: "cuda" },
      { name: "other", accelerator: "cuda" },
    ],
    nodes: [{ name: "gpu-1", class: "nvidia-l4" }],
  });
  const [first, ...rest] = targets;
  const service = { spec: { gpuLayers: "many" } };
  const candidates = () => first?.candidates().map((one) => ({ ...one, service })) ?? [];
  const broken = { ...first, candidates } as unknown as Target;
  const world = { hosts: [], jobs: [], table: NO_BENCHMARKS, isOn: true, maxAgeMs: HOUR_MS, settings };
  const planned = planBenchmarks({ ...world, targets: [broken, ...rest] }, NO_MEMORY, {
    wallMs: 0,
    monotonicMs: 0,
  });
  expect([...planned.states.values()]).toMatchObject([
    { at: "failed", code: "BenchmarkFailed", message: expect.stringContaining("gpuLayers") },
    { at: "running" },
  ]);
});

test("no measurement starts whose result would not fit in the ConfigMap", () => {
  const models = Array.from({ length: 230 }, (_, index) => ({ name: `m${index}` }));
  const { planned } = plan({ models, hosts: [{ name: "mac-1", class: "m4" }] });
  const states = [...planned.states.values()];
  const full = states.filter((state) => state.at === "pending" && state.why.endsWith("is full"));
  expect(full).toHaveLength(5);
  expect(planned.orders.size).toBe(1);
});
