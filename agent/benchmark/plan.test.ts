import { expect, test } from "vitest";
import { benchmarkOrderSchema } from "../../src/api/benchmark.ts";
import { type BenchmarkDecision, type BenchmarkFacts, planBenchmark } from "./plan.ts";
import { noRoom } from "./weights.ts";

const order = benchmarkOrderSchema.parse({
  key: "0123456789abcdef-apple-m4-max-40",
  namespace: "default",
  name: "qwen",
  model: { source: "hf://org/qwen", format: "gguf" },
  runtime: "llamacpp",
  build: "b11669",
  deviceClass: "apple-m4-max-40",
  settings: {},
  plan: { warmups: 2, runs: 5, tokens: 128 },
});
const state = { key: order.key, build: order.build };
const idle: BenchmarkFacts = {
  isEnabled: true,
  order,
  state: undefined,
  job: undefined,
  isSynced: true,
  replicas: [],
  downloads: [],
  memory: "Normal",
  busyAt: 0,
  now: 60_000,
  idleMs: 60_000,
};
const cool = { thermal: "nominal", isOnBattery: false, isStored: true };
const retry = { at: 90_000, reason: "SourceUnreachable", message: "no route" } as const;
const replica = { namespace: "default", name: "chat-0", phase: "Pending" };
const running = { job: "run", state: { ...state, phase: "Running" } } as const;

test.each<[string, Partial<BenchmarkFacts>, Partial<BenchmarkDecision>]>([
  ["nothing is ordered", { order: undefined }, { do: "clear" }],
  ["an order was withdrawn", { ...running, order: undefined }, { do: "clear" }],
  ["a result exists", { state: { ...state, phase: "Done" }, isEnabled: false }, { do: "nothing" }],
  ["it has failed", { state: { ...state, phase: "Failed" } }, { do: "nothing" }],
  ["the result is of another build", { state: { ...state, phase: "Done", build: "b1" } }, { do: "inspect" }],
  ["the result is of another key", { state: { ...state, phase: "Done", key: "k" } }, { do: "inspect" }],
  ["benchmarks are off", { isEnabled: false }, { do: "fail", reason: "BenchmarkDisabled" }],
  ["replicas are unknown", { isSynced: false }, { do: "wait", reason: "HostBusy", recheckAfterMs: 1_000 }],
  [
    "a replica was assigned",
    { ...running, replicas: [replica] },
    { do: "wait", reason: "HostBusy", message: "replica default/chat-0 is in phase Pending" },
  ],
  ["a replica serves", { replicas: [{ ...replica, phase: "Ready" }] }, { do: "wait", reason: "HostBusy" }],
  ["a replica drains", { replicas: [{ ...replica, phase: "Draining" }] }, { do: "wait", reason: "HostBusy" }],
  ["a replica waits", { replicas: [{ ...replica, phase: "Waiting" }] }, { do: "wait", reason: "HostBusy" }],
  ["a replica has failed", { replicas: [{ ...replica, phase: "Failed" }] }, { do: "inspect" }],
  [
    "the engine of a failed replica is left",
    { replicas: [{ ...replica, phase: "Failed", pid: 7 }] },
    { do: "wait", reason: "HostBusy" },
  ],
  [
    "a prefetch downloads",
    { downloads: ["hf://a/b"] },
    { do: "wait", message: "hf://a/b is being downloaded" },
  ],
  ["it was busy 10 s ago", { busyAt: 50_000 }, { do: "wait", reason: "HostBusy", recheckAfterMs: 50_000 }],
  ["a failed replica changes while it runs", { ...running, busyAt: 50_000 }, { do: "nothing" }],
  ["memory was not read", { memory: undefined }, { do: "wait", reason: "MemoryPressure" }],
  [
    "memory is short",
    { memory: "Warning" },
    { do: "wait", reason: "MemoryPressure", recheckAfterMs: 60_000 },
  ],
  ["memory becomes short", { ...running, memory: "Critical" }, { do: "fail", reason: "BenchmarkDoesNotFit" }],
  ["it is idle", {}, { do: "inspect" }],
  ["it is being inspected", { job: "inspect" }, { do: "nothing" }],
  [
    "it is hot",
    { inspected: { ...cool, thermal: "limited to 80%" } },
    { do: "wait", reason: "ThermalThrottled", message: "the processor is limited to 80%" },
  ],
  [
    "it runs on its battery",
    { inspected: { ...cool, isOnBattery: true } },
    { do: "wait", reason: "OnBattery" },
  ],
  [
    "a download has failed, and its own status comes back",
    { retry, state: { ...state, phase: "Waiting", reason: "SourceUnreachable" } },
    { do: "wait", reason: "SourceUnreachable", message: "no route", recheckAfterMs: 30_000 },
  ],
  ["a failed download is due", { retry, now: 90_000 }, { do: "inspect" }],
  ["heat is unknown", { inspected: { ...cool, thermal: undefined } }, { do: "run" }],
  ["the weights are stored", { inspected: cool }, { do: "run" }],
  ["the weights are missing", { inspected: { ...cool, isStored: false } }, { do: "fetch" }],
])("if %s", (_, facts, expected) => {
  expect(planBenchmark({ ...idle, ...facts })).toMatchObject(expected);
});

const GIB = 1024 ** 3;
const disk = { totalBytes: 1000 * GIB, freeBytes: 300 * GIB, storeBytes: 50 * GIB };

test.each<[string | undefined, number | undefined, object]>([
  [undefined, 100 * GIB, {}],
  [undefined, 140 * GIB, { unfinishedBytes: 40 * GIB }],
  [undefined, 10 * GIB, { quotaBytes: 55 * GIB, unfinishedBytes: 8 * GIB }],
  [
    "the model needs 101 GiB; 200 GiB of 1000 GiB are free",
    101 * GIB,
    { freeBytes: 200 * GIB, unfinishedBytes: 100 * GIB },
  ],
  ["the model needs 101 GiB; 300 GiB of 1000 GiB are free", 101 * GIB, {}],
  ["the model needs 10 GiB; 50 GiB of the quota of 55 GiB are used", 10 * GIB, { quotaBytes: 55 * GIB }],
  ["the size of the model is not known before its download", undefined, {}],
])("a download leaves a fifth of the volume free and evicts nothing: %s", (why, sizeBytes, changes) => {
  expect(noRoom(sizeBytes, { ...disk, ...changes })).toBe(why);
});
