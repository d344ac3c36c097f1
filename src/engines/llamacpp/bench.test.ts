import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { BenchmarkSettings } from "../../api/benchmark.ts";
import type { SpeedSetting } from "../../api/engine-settings.ts";
import { mlxBench } from "../omlx/bench.ts";
import { llamaBench } from "./bench.ts";

const read = (name: string) => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");

test("the recorded output of llama-bench b11669, between its log lines", () => {
  expect(llamaBench.parse(read("llama-bench-b11669.txt"))).toEqual({
    generation: [33067.6, 36878.9],
    prompt512: [3396.13, 19095],
    generationAt4096: [487.619, 1380.25, 1054.77],
  });
});

test("the recorded output of mlx_lm.benchmark 0.32.2", () => {
  const text = read("../../omlx/fixtures/mlx-lm-benchmark-0.32.2.txt");
  expect(mlxBench.parse(text)).toEqual({
    prompt512: [57875.708, 167459.209, 165284.347],
    generation: [2156.756, 2184.361, 2265.215],
  });
  expect(mlxBench.parse(text.replace("prompt_tokens=512", "prompt_tokens=4096"))).toEqual({
    prompt4096: [57875.708, 167459.209, 165284.347],
    generationAt4096: [2156.756, 2184.361, 2265.215],
  });
});

test.each([
  "",
  "error: failed to load model",
  "{",
  '{"n_prompt":512,"n_gen":0,"samples_ts":[0]}',
  '{"n_prompt":7,"n_gen":0,"samples_ts":[1]}',
])("other output has no samples: %s", (text) => {
  expect(llamaBench.parse(text)).toEqual({});
  expect(mlxBench.parse(text)).toEqual({});
});

const argsOf = (settings: BenchmarkSettings, modelPath = "/m.gguf"): string => {
  const [test] = llamaBench.tests;
  if (test === undefined) throw new Error("no tests");
  return llamaBench.args({ modelPath, settings, test, tokens: 128, runs: 7 }).join(" ");
};

test("the settings of an order become arguments", () => {
  const settings = { cacheTypeK: "q8_0", flashAttention: "true", noKvOffload: "false", batchSize: "1024" };
  expect(argsOf({ ...settings, moeCPUOffload: "true" })).toBe(
    "-m /m.gguf -o jsonl --no-warmup -r 7 -p 0 -n 128 -d 0 -fa 1 -ctk q8_0 -b 1024 -ngl 999 -ncmoe 999 -nkvo 0",
  );
  expect(argsOf({ gpuLayers: "7", moeCPULayers: "3", moeCPUOffload: "false" })).toMatch(/-ngl 7 -ncmoe 3$/);
});

/** A value of each setting that is said to change the speed. */
const CHANGES: Readonly<Record<SpeedSetting, string>> = {
  cacheTypeK: "q8_0",
  cacheTypeV: "q8_0",
  flashAttention: "false",
  gpuLayers: "7",
  noKvOffload: "true",
  moeCPUOffload: "true",
  moeCPULayers: "3",
  batchSize: "1024",
  uBatchSize: "256",
};

test.each(Object.entries(CHANGES))("llama-bench gets %s", (name, value) => {
  const argsWith = (settings: BenchmarkSettings) =>
    llamaBench.tests.map((one) =>
      llamaBench.args({ modelPath: "/m.gguf", settings, test: one, tokens: 128, runs: 7 }),
    );
  expect(argsWith({ [name]: value })).not.toEqual(argsWith({}));
});

test.each<[BenchmarkSettings, path?: string]>([
  [{ cacheTypeV: "f16,q8_0" }],
  [{ batchSize: "1-4096+1" }],
  [{ uBatchSize: "512,1024" }],
  [{ gpuLayers: "-2" }],
  [{ flashAttention: "0,1" }],
  [{}, "/models/a,b.gguf"],
])("a value that would be several tests is refused: %j %s", (settings, path) => {
  expect(() => argsOf(settings, path)).toThrow(expect.objectContaining({ code: "BenchmarkNotSupported" }));
});
