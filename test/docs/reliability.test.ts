/** docs/reliability.md names tests, docs/torture.md invariants and faults: all of them exist, and none is missing. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { INVARIANTS } from "../torture/invariants/registry.ts";
import { ALL_FAULTS } from "../torture/plan/catalog.ts";
import { root } from "./pages.ts";

const page = readFileSync(path.join(root, "docs/reliability.md"), "utf8");
const torture = readFileSync(path.join(root, "docs/torture.md"), "utf8");

/** `path` › `name of the test` */
const named = [...page.matchAll(/`([\w./-]+\.test\.ts)` › `([^`]+)`/g)].map(
  ([, file = "", name = ""]) => [file, name] as const,
);

/** The first cells of a section's table, each of which may name several things. */
function firstCells(heading: string): readonly string[] {
  const section = torture.split(`## ${heading}\n`)[1]?.split("\n#")[0] ?? "";
  const cells = section.split("\n").filter((line) => line.startsWith("| `"));
  return cells.flatMap((line) =>
    [...(line.split("|")[1] ?? "").matchAll(/`([\w-]+)`/g)].map(([, name]) => name ?? ""),
  );
}

test("names tests at all", () => expect(named.length).toBeGreaterThan(15));

test.each(named)("%s has the test %s", (file, name) => {
  const source = readFileSync(path.join(root, file), "utf8");
  expect(source).toMatch(new RegExp(`(test|it)[^\n]*\\(\\s*["'\`]${escaped(name)}["'\`]`));
});

test("every line of the tables of promises names what holds it", () => {
  const rows = page.split("\n").filter((line) => line.startsWith("| ") && !line.endsWith("| test |"));
  expect(rows.length).toBeGreaterThan(40);
  const bare = rows.filter((row) => !/`[\w./-]+\.test\.ts` › `|torture: `[\w-]+`/.test(row));
  expect(bare).toEqual([]);
});

test("describes every invariant and every fault, and no other", () => {
  expect([...firstCells("Invariants")].sort()).toEqual(INVARIANTS.map(({ name }) => name).sort());
  expect([...firstCells("Faults")].sort()).toEqual(ALL_FAULTS.map(({ kind }) => kind).sort());
});

test("names no invariant that there is none of", () => {
  const named = [...page.matchAll(/torture: ((?:`[\w-]+`(?:, )?)+)/g)].flatMap(([, list = ""]) =>
    [...list.matchAll(/`([\w-]+)`/g)].map(([, name]) => name ?? ""),
  );
  expect(named.filter((name) => !INVARIANTS.some((one) => one.name === name))).toEqual([]);
});

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
