import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { root } from "../project/root.ts";
import { costsToSave, judgeCosts, statedReason, unexplainedCosts } from "./costs.mjs";

const file = (name: string, cpuSeconds: number | undefined, wallSeconds = 2) => ({
  name,
  cpuSeconds,
  wallSeconds,
});
/** Thirty files of 3 s each, and two that are near the limit and over it. */
const KNOWN = Array.from({ length: 30 }, (_, index) => `${index}.test.ts`);
const costs = Object.fromEntries(KNOWN.map((name) => [name, { cpuSeconds: 3 }]));
const files = { ...costs, "near.test.ts": { cpuSeconds: 14 }, "over.test.ts": { cpuSeconds: 16 } };
const committed = { totalCpuSeconds: 120, files };
/** With the known files as they were, on a machine that takes `pace` seconds for each of theirs. */
const judge = (
  more: readonly ReturnType<typeof file>[],
  { pace = 1, reasons = {} as Readonly<Record<string, string>>, isWhole = true } = {},
) =>
  judgeCosts([...KNOWN.map((name) => file(name, 3 * pace)), ...more], {
    committed,
    reasonOf: (name: string) => reasons[name],
    isWhole,
  });

test.each([1, 2.5, 0.5])(
  "a file that takes more than 15 CPU-s needs a stated reason, on a machine that takes %d s for a second",
  (pace) => {
    const more = [
      file("a.test.ts", 14.9 * pace),
      file("b.test.ts", 15.1 * pace),
      file("c.test.ts", 40 * pace),
    ];
    expect(judge(more, { pace, reasons: { "c.test.ts": "fifty engines" } }).tooMuch).toEqual(["b.test.ts"]);
  },
);

test("noise does not put a file over the limit, growth does", () => {
  expect(judge([file("near.test.ts", 27.9)]).tooMuch).toEqual([]);
  expect(judge([file("near.test.ts", 28.1)]).tooMuch).toEqual(["near.test.ts"]);
  expect(judge([file("over.test.ts", 16)]).tooMuch).toEqual(["over.test.ts"]);
});

test("every committed cost of more than 15 CPU-s has a stated reason", () => {
  const read = (file: string) => readFileSync(path.join(root, file), "utf8");
  const saved = JSON.parse(read("test/costs.json"));
  expect(unexplainedCosts(saved, (name: string) => statedReason(name, read(name)))).toEqual([]);
  expect(unexplainedCosts(committed, () => undefined)).toEqual(["over.test.ts"]);
});

test.each([
  ["a.test.ts", '/** Kills.\n *\n * CPU: fifty engines.\n */\nimport { a } from "a";', "fifty engines."],
  ["a.test.ts", '/** Kills. */\nimport { a } from "a";\n// CPU: later', undefined],
  ["a.soak.test.ts", "", "system"],
])("the reason of %s is in its first comment", (name, text, reason) => {
  expect(statedReason(name, text)).toBe(reason);
});

test("the sum of a whole run is compared with the committed one, at the machine's pace", () => {
  const slow = judge([file("a.test.ts", 20)], { pace: 2, reasons: { "a.test.ts": "many" } });
  expect(slow.lines.slice(-1)).toEqual([
    "test files took 200 CPU-s, at this machine's pace -17 % of the committed 120 (2.00 s for a second)",
  ]);
  const grown = judge([file("a.test.ts", 60)], { reasons: { "a.test.ts": "many" } });
  expect(grown.lines.slice(-2)).toEqual([
    "test files took 150 CPU-s, at this machine's pace +25 % of the committed 120 (1.00 s for a second)",
    "warning: more than the noise of two runs. Grown most: a.test.ts +60.0 s, 0.test.ts +0.0 s, 1.test.ts +0.0 s",
  ]);
  expect(judge([], { isWhole: false }).lines.slice(-1)).toEqual(["test files took 90 CPU-s"]);
});

test("where CPU time cannot be measured, or too few files are known, nothing is judged", () => {
  const options = { reasonOf: () => undefined, isWhole: true };
  const untold = { lines: ["test files took 40 CPU-s"], tooMuch: [] };
  for (const known of [undefined, committed])
    expect(judgeCosts([file("0.test.ts", 40)], { committed: known, ...options })).toEqual(untold);
  expect(judgeCosts([file("0.test.ts", undefined)], { committed, ...options })).toEqual({
    lines: [],
    tooMuch: [],
  });
});

test("the most expensive files are listed, and not for a run of a few", () => {
  const all = Array.from({ length: 30 }, (_, index) => file(`${index}.test.ts`, index));
  const options = { committed: undefined, reasonOf: () => undefined, isWhole: true };
  const { lines } = judgeCosts(all, options);
  expect(lines.slice(0, 4)).toEqual([
    "",
    "the 25 most expensive test files:",
    "  CPU s  wall s",
    "   29.0     2.0  29.test.ts",
  ]);
  expect(judgeCosts(all.slice(0, 10), options).lines).toHaveLength(1);
});

test("costs are saved by name, without files that cost next to nothing", () => {
  const saved = [file("b.test.ts", 2.26, 3), file("a.test.ts", 0.2, 1.04), file("c.test.ts", 0.1, 0.2)];
  expect(costsToSave(saved, undefined)).toEqual({
    totalCpuSeconds: 3,
    files: {
      "a.test.ts": { cpuSeconds: 0.2, wallSeconds: 1 },
      "b.test.ts": { cpuSeconds: 2.3, wallSeconds: 3 },
    },
  });
});

test("costs of a slower machine are saved in seconds of the first one", () => {
  const saved = costsToSave([...KNOWN.map((name) => file(name, 6)), file("new.test.ts", 8, 12)], committed);
  expect(saved.files["new.test.ts"]).toEqual({ cpuSeconds: 4, wallSeconds: 6 });
  expect(saved.totalCpuSeconds).toBe(94);
});
