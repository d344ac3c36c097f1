/** Tests which results the density state recomputes, caches and drops. */
import { queryObjects } from "node:v8";
import { expect, test } from "vitest";
import { quantizationOf } from "../catalog/quantizations.ts";
import { cost } from "./cost.ts";
import { createDensity, type Density } from "./density.ts";
import { createFitIndex } from "./fits.ts";
import { aHost, catalogRecords } from "./fixtures/fleet.ts";
import { type DensityMachine, machineFromHost } from "./place.ts";
import { simulate } from "./simulate.ts";

const records = catalogRecords();
const GIB = 1024 ** 3;
const now = { wallMs: 0, monotonicMs: 0 };
const QWEN_7B = "Qwen/Qwen2.5-7B-Instruct";

const held = (gib: number) => ({
  namespace: "team",
  service: "chat",
  phase: "Ready",
  bytes: gib * GIB,
  gpus: 0,
});

const siteOf = (density: Density, name: string) => {
  const site = density.site(name);
  if (site === undefined) throw new Error(name);
  return site;
};

test("a host whose own scores stay as they are keeps its summary when it reports", () => {
  const fits = createFitIndex(records);
  let summaries = 0;
  const density = createDensity({
    ...fits,
    get records() {
      summaries += 1;
      return fits.records;
    },
  });
  const report = (tokensPerSecond: number, availableBytes: number, memoryGib = 16) => {
    const source = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
    const models = [{ source, tokensPerSecond }];
    const { status, ...host } = aHost("a", { chip: "Apple M1", memoryGib });
    const memory = { ...status?.memory, availableBytes };
    density.setPlace("Host", "a", machineFromHost({ ...host, status: { ...status, memory, models } }));
    density.summaryOf(siteOf(density, "a"));
    return summaries;
  };
  expect([report(99, GIB), report(99, 2 * GIB), report(99, 3 * GIB)]).toEqual([1, 1, 1]);
  expect([report(9, GIB), report(9, GIB, 32), report(9, 2 * GIB, 32)]).toEqual([2, 3, 3]);
});

test("replicas removed from unknown machines leave no state behind", () => {
  const density = createDensity(createFitIndex(records));
  const maps = () => Number(queryObjects(Map, { format: "count" }));
  const before = maps();
  for (let count = 0; count < 1_000; count += 1) {
    density.setHeld("team/moved", { kind: "Node", name: `node-${count}` }, held(1));
    density.setHeld("team/gone", { kind: "Host", name: `host-${count}` }, held(1));
    density.setHeld("team/gone", undefined);
  }
  expect(maps() - before).toBeLessThan(100);
});

test("a simulation uses the host's measurement without looking up model names", () => {
  let lookups = 0;
  const sourceOf = (name: string) =>
    ({
      slice: () => {
        lookups += 1;
        return name;
      },
    }) as unknown as string;
  const others = records.filter(({ name }) => name !== QWEN_7B);
  const host = (name: string, more: readonly object[]) => {
    const machine = machineFromHost(aHost(name));
    if (machine.machine.at !== "known") throw new Error(machine.machine.why);
    const measured = [...others.map((one) => ({ source: sourceOf(one.name), tokensPerSecond: 9 })), ...more];
    return { ...machine, machine: { ...machine.machine, machine: { ...machine.machine.machine, measured } } };
  };
  const density = createDensity(createFitIndex(records));
  const own = { source: "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/x-Q4_K_M.gguf", tokensPerSecond: 99 };
  density.setPlace("Host", "with", host("with", [own]) as DensityMachine);
  density.setPlace("Host", "without", host("without", []) as DensityMachine);
  lookups = 0;
  const quantization = quantizationOf("Q4_K_M");
  const record = records.find(({ name }) => name === QWEN_7B);
  if (quantization === undefined || record === undefined) throw new Error("unknown");
  const { rankedNodes } = simulate(density, { record, quantization }, now);
  const speeds = new Map(rankedNodes.map(({ nodeName, estimatedTps }) => [nodeName, estimatedTps]));
  expect(speeds.get("with")).toBe(99);
  expect(speeds.get("without")).toBeLessThan(99);
  expect(lookups).toBe(0);
});

test("the cost of all replicas is computed once between two changes", () => {
  const density = createDensity(createFitIndex(records));
  density.setPlace("Host", "mac", machineFromHost(aHost("mac")));
  density.setHeld("team/chat-0", { kind: "Host", name: "mac" }, held(6));
  const { models } = cost(density);
  expect(cost(density).models).toBe(models);
  expect(cost(density, "team")).toEqual(cost(density));
  expect(cost(density, "other")).toEqual({ models: [], namespaces: [] });
  density.setHeld("team/chat-1", { kind: "Host", name: "mac" }, held(6));
  expect(cost(density).models).toMatchObject([{ replicas: 2, memoryRequiredGb: 12 }]);
});
