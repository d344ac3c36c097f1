/** The table of docs/input-limits.md: five cells a row, and a test of more than single examples holds each limit. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { root } from "./pages.ts";

const page = readFileSync(path.join(root, "docs", "input-limits.md"), "utf8");
const table = page.split("\n").filter((line) => line.startsWith("|"));
const [head = [], , ...rows] = table.map((line) => line.slice(1, -1).split(/(?<!\\)\|/));

/** A property, or a table against a real API server. */
function isGenerated(file: string): boolean {
  return file.endsWith(".cluster.test.ts") || readFileSync(path.join(root, file), "utf8").includes("fc.");
}

test("the table has its columns and rows", () => {
  expect(head.map((cell) => cell.trim())).toEqual([
    "input",
    "controlled by",
    "limit",
    "beyond the limit",
    "test",
  ]);
  expect(rows.length).toBeGreaterThanOrEqual(3);
});

test.each(rows.map((cells) => [cells[0]?.trim() ?? "", cells] as const))(
  "%s: a test holds it",
  (_, cells) => {
    expect(cells).toHaveLength(5);
    expect(cells.filter((cell) => cell.trim() === "")).toEqual([]);
    const tests = [...(cells[4] ?? "").matchAll(/`([^`]+)`/g)].map(([, file]) => file ?? "");
    expect(tests.length).toBeGreaterThan(0);
    for (const file of tests) {
      expect(file).toMatch(/\.test\.ts$/);
      expect(existsSync(path.join(root, file)), file).toBe(true);
    }
    expect(tests.filter(isGenerated)).not.toEqual([]);
  },
);

test("each input stands in one row", () => {
  const inputs = rows.map(([input]) => input?.trim());
  expect(inputs).toEqual([...new Set(inputs)]);
});
