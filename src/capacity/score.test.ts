import { expect, test } from "vitest";
import { type ScoredMachine, scoreMachine, scoreMachines, scoreRank, scoreScale } from "./score.ts";

const measured = (value: number) => ({ value, basis: "measured" });

test("the score is 0.7 × speed − 0.2 × load − 0.1 × cost, relative to the best speed and the highest cost", () => {
  const [fast, slow] = scoreMachines([
    { name: "slow", tokensPerSecond: measured(50), utilization: 0.5, cost: 5 },
    { name: "fast", tokensPerSecond: measured(100), utilization: 0.1, cost: 2 },
  ]);
  expect(fast).toMatchObject({
    name: "fast",
    why: "0.64: 100 of 100 tokens/s (measured), 10% in use, cost 2 of 5",
  });
  expect(fast?.score).toBeCloseTo(0.7 - 0.02 - 0.04);
  expect(slow?.score).toBeCloseTo(0.35 - 0.1 - 0.1);
});

test("FlexInfer's fixture, in which both nodes are equally fast, keeps its order", () => {
  const nodes: ScoredMachine[] = [
    { name: "node1", tokensPerSecond: measured(100), utilization: 0.5, cost: 5 },
    { name: "node2", tokensPerSecond: measured(100), utilization: 0.1, cost: 2 },
  ];
  expect(scoreMachines(nodes).map(({ name }) => name)).toEqual(["node2", "node1"]);
});

test("a missing figure counts half if another machine has it, and nothing if none has", () => {
  const [known, unknown] = scoreMachines([
    { name: "known", tokensPerSecond: measured(40) },
    { name: "unknown" },
  ]);
  expect(known).toMatchObject({ score: 0.7, missing: [] });
  expect(unknown).toMatchObject({ score: 0.35, missing: ["tokensPerSecond"], why: "0.35: speed unknown" });
  expect(scoreMachines([{ name: "a" }])).toEqual([
    { name: "a", score: 0, missing: [], why: "0.00: nothing is known" },
  ]);
});

test.each<[string, ScoredMachine]>([
  [
    "not a number",
    { name: "x", tokensPerSecond: measured(Number.NaN), utilization: Number.NaN, cost: Number.NaN },
  ],
  ["negative", { name: "x", tokensPerSecond: measured(-1), utilization: -1, cost: -1 }],
  [
    "infinite",
    { name: "x", tokensPerSecond: measured(Number.POSITIVE_INFINITY), utilization: 9, cost: 1e300 },
  ],
])("a figure that is %s keeps the score within its range", (_, machine) => {
  const scale = scoreScale([machine, { name: "y", tokensPerSecond: measured(10), utilization: 0, cost: 1 }]);
  const { score } = scoreMachine(machine, scale);
  expect(score).toBeGreaterThanOrEqual(-0.3);
  expect(score).toBeLessThanOrEqual(0.7);
});

test("the rank maps the range of the formula to 0 to 1", () => {
  expect([-0.3, 0.2, 0.7, 5, -5].map((score) => Number(scoreRank(score).toFixed(6)))).toEqual([
    0, 0.5, 1, 1, 0,
  ]);
  expect(scoreRank(1, { tps: 0, utilization: 0, cost: 0 })).toBe(0);
});
