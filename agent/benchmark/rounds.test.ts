import { expect, test } from "vitest";
import type { BenchSamples } from "../../src/engines/contract/bench.ts";
import { llamaBench } from "../../src/engines/llamacpp/bench.ts";
import { mlxBench } from "../../src/engines/omlx/bench.ts";
import { parseMacmon, parseNvidia } from "./measure.ts";
import { BENCH_LIMIT_MS, nextRound } from "./rounds.ts";

const plan = { warmups: 2, runs: 5, tokens: 128 };
const five = (rate: number) => [rate, rate, rate, rate, rate];

/** All rounds, if each test generates and reads prompts at these speeds. */
function rounds(
  { generation, prompt }: { generation: number; prompt: number },
  { minSeconds }: { readonly minSeconds?: number } = {},
  tests = llamaBench.tests,
): readonly string[] {
  let done: BenchSamples = {};
  let elapsedMs = 0;
  const names: string[] = [];
  for (;;) {
    const round = nextRound(tests, { ...plan, minSeconds }, done, elapsedMs);
    if (round === undefined) return names;
    const { test, runs, discarded } = round;
    const series = [test.generation?.series, test.prompt?.series].filter((one) => one !== undefined);
    names.push(`${series.join("+")} ${discarded}+${runs}`);
    for (const one of series) {
      const rate = one.startsWith("prompt") ? prompt : generation;
      done = { ...done, [one]: [...(done[one] ?? []), ...Array.from({ length: runs }, () => rate)] };
    }
    const runMs = ((test.generation ? 128 / generation : 0) + (test.prompt?.tokens ?? 0) / prompt) * 1_000;
    elapsedMs += (test.depth / prompt) * 1_000 + (runs + discarded) * runMs;
  }
}

test("a fast machine completes every test, with two warm-ups before the first of each kind", () => {
  expect(rounds({ generation: 50, prompt: 800 })).toEqual([
    "generation 2+5",
    "prompt512 2+5",
    "generationAt4096 1+5",
    "prompt4096 1+5",
  ]);
});

test("a slow machine makes fewer runs of the long tests, or none", () => {
  // The context of 4096 tokens takes 205 s, and a run of the prompt of the same length too.
  expect(rounds({ generation: 5, prompt: 20 })).toEqual([
    "generation 2+5",
    "prompt512 2+5",
    "generationAt4096 1+5",
  ]);
  expect(rounds({ generation: 10, prompt: 40 })).toEqual([
    "generation 2+5",
    "prompt512 2+5",
    "generationAt4096 1+5",
    "prompt4096 1+4",
  ]);
  expect(rounds({ generation: 2, prompt: 9 })).toEqual(["generation 2+5", "prompt512 2+5"]);
});

test("minDuration ends every test after its share of the time, but not before its first run", () => {
  // A run of each test takes 2.56 s, 0.64 s, 2.56 s and 5.12 s.
  expect(rounds({ generation: 50, prompt: 800 }, { minSeconds: 40 })).toEqual([
    "generation 2+1",
    "generation 1+2",
    "prompt512 2+1",
    "prompt512 1+4",
    "generationAt4096 1+1",
    "prompt4096 1+1",
  ]);
  expect(rounds({ generation: 50, prompt: 800 }, { minSeconds: 1 })).toEqual([
    "generation 2+1",
    "prompt512 2+1",
    "generationAt4096 1+1",
    "prompt4096 1+1",
  ]);
});

test("mlx_lm.benchmark measures prompt and generation together", () => {
  expect(rounds({ generation: 50, prompt: 800 }, {}, mlxBench.tests)).toEqual([
    "generation+prompt512 2+5",
    "generationAt4096+prompt4096 1+5",
  ]);
});

test("no test starts after the time has elapsed", () => {
  const done = { generation: five(50), prompt512: five(800) };
  expect(nextRound(llamaBench.tests, plan, done, BENCH_LIMIT_MS)).toBeUndefined();
});

test.each<[unknown, number | undefined]>([
  [parseMacmon('{"all_power":21.5,"sys_power":34.25,"cpu_power":1.5}'), 34.25],
  [parseMacmon('{"all_power":21.5,"sys_power":0}'), 21.5],
  [parseMacmon("Error: no channel"), undefined],
  [parseNvidia("2, 310.55"), 621.1],
  [parseNvidia("1, [N/A]"), undefined],
])("power is read: %s", (found, expected) => {
  expect(found).toBe(expected);
});
