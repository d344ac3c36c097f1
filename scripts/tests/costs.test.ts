import { expect, test } from "vitest";
import { costsToSave, judgeCosts } from "./costs.mjs";

const file = (name: string, cpuSeconds: number | undefined, wallSeconds = 2) => ({
  name,
  cpuSeconds,
  wallSeconds,
});
const committed = { totalCpuSeconds: 100, files: { "a.test.ts": { cpuSeconds: 3, wallSeconds: 4 } } };
const judge = (files: readonly object[], reasons: Readonly<Record<string, string>> = {}, isWhole = true) =>
  judgeCosts(files, { committed, reasonOf: (name: string) => reasons[name], isWhole });

test("a file that takes more than 15 CPU-s needs a stated reason", () => {
  const files = [file("a.test.ts", 15), file("b.test.ts", 15.1), file("c.test.ts", 40)];
  expect(judge(files, { "c.test.ts": "fifty engines" }).tooMuch).toEqual(["b.test.ts"]);
});

test("noise does not put a file over the limit, growth does", () => {
  const files = { "near.test.ts": { cpuSeconds: 14 }, "over.test.ts": { cpuSeconds: 16 } };
  const judged = (name: string, cpuSeconds: number) =>
    judgeCosts([file(name, cpuSeconds)], {
      committed: { totalCpuSeconds: 100, files },
      reasonOf: () => undefined,
      isWhole: true,
    }).tooMuch;
  expect(judged("near.test.ts", 17)).toEqual([]);
  expect(judged("near.test.ts", 18)).toEqual(["near.test.ts"]);
  expect(judged("over.test.ts", 16)).toEqual(["over.test.ts"]);
});

test("the sum of a whole run is compared with the committed one", () => {
  expect(judge([file("a.test.ts", 90)]).lines).toEqual([
    "test files took 90 CPU-s, -10 % of the committed 100",
  ]);
  expect(judge([file("a.test.ts", 120)]).lines).toEqual([
    "test files took 120 CPU-s, +20 % of the committed 100",
    "warning: more than the noise of two runs. Grown most: a.test.ts +117.0 s",
  ]);
  expect(judge([file("a.test.ts", 120)], {}, false).lines).toEqual(["test files took 120 CPU-s"]);
});

test("where CPU time cannot be measured, or no costs are committed, nothing is judged", () => {
  const reasonOf = () => undefined;
  expect(judgeCosts([file("a.test.ts", 40)], { committed: undefined, reasonOf, isWhole: true })).toEqual({
    lines: ["test files took 40 CPU-s"],
    tooMuch: [],
  });
  expect(judge([file("a.test.ts", undefined)])).toEqual({ lines: [], tooMuch: [] });
});

test("the most expensive files are listed, and not for a run of a few", () => {
  const files = Array.from({ length: 30 }, (_, index) => file(`${index}.test.ts`, index));
  const { lines } = judge(files);
  expect(lines.slice(0, 4)).toEqual([
    "",
    "the 25 most expensive test files:",
    "  CPU s  wall s",
    "   29.0     2.0  29.test.ts",
  ]);
  expect(judge(files.slice(0, 10)).lines).toHaveLength(1);
});

test("costs are saved by name, without files that cost next to nothing", () => {
  expect(
    costsToSave([file("b.test.ts", 2.26, 3), file("a.test.ts", 0.2, 1.04), file("c.test.ts", 0.1, 0.2)]),
  ).toEqual({
    totalCpuSeconds: 3,
    files: {
      "a.test.ts": { cpuSeconds: 0.2, wallSeconds: 1 },
      "b.test.ts": { cpuSeconds: 2.3, wallSeconds: 3 },
    },
  });
});
