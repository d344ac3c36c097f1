import { expect, test } from "vitest";
import type { BenchmarkResult } from "../../src/api/benchmark.ts";
import { createDensity } from "./density.ts";
import { createFitIndex } from "./fits.ts";
import { aHost, catalogRecords } from "./fixtures/fleet.ts";
import { machineScorer } from "./machine-score.ts";
import { machineFromHost } from "./place.ts";

const SOURCE = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";

test("machines are scored by benchmarks of their class, live rates, load and cost; without data they are between", () => {
  const records = catalogRecords();
  const density = createDensity(createFitIndex(records));
  const hosts = [
    aHost("m4", { chip: "Apple M4", gpuCores: 10, spec: { cost: 2 } }),
    aHost("m1", { chip: "Apple M1", status: { models: [{ source: SOURCE, tokensPerSecond: 10 }] } }),
    aHost("m2", { chip: "Apple M2", spec: { cost: 4 } }),
  ];
  for (const host of hosts) density.setPlace("Host", host.metadata.name, machineFromHost(host));
  const held = { namespace: "team", service: "chat", phase: "Ready", bytes: 1, gpus: 0 };
  density.setHeld("team/chat-0", { kind: "Host", name: "m4" }, { ...held, load: { requests: 1, slots: 2 } });
  const results = [20, 40].map((median): [string, BenchmarkResult] => {
    const rest = {
      runtime: "llamacpp",
      settings: {},
      build: "b1",
      machine: "m4",
      measuredAt: "2026-03-01T12:00:00Z",
    };
    const result = { ...rest, model: SOURCE, deviceClass: "apple-m4-10", generation: { median } };
    return [String(median), result as unknown as BenchmarkResult];
  });
  density.setBenchmarks({ results: new Map(results), dropped: [] });
  const record = density.fits.recordOf(SOURCE) ?? expect.fail();
  const scoreOn = machineScorer(density);
  const whyOn = (name: string) => scoreOn(density.site(name) ?? expect.fail(), record).why;
  expect(whyOn("m4")).toBe("0.55: 40 of 40 tokens/s (measured), 50% in use, cost 2 of 4");
  expect(whyOn("m1")).toBe("0.12: 10 of 40 tokens/s (live), 0% in use, cost unknown");
  expect(whyOn("m2")).toBe("0.25: speed unknown, 0% in use, cost 4 of 4");
  density.setBenchmarks({ results: new Map(), dropped: [] });
  expect(density.speedsOf(record)).toEqual({});
});

test("the score has the weights of the density", () => {
  const records = catalogRecords();
  const density = createDensity(createFitIndex(records), { tps: 0, utilization: 0, cost: 1 });
  density.setPlace("Host", "m4", machineFromHost(aHost("m4", { spec: { cost: 2 } })));
  const record = density.fits.recordOf(SOURCE) ?? expect.fail();
  expect(machineScorer(density)(density.site("m4") ?? expect.fail(), record).score).toBe(-1);
});
