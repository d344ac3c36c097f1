/** The glossary has the words that a user meets first in conditions and messages. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../local/package-root.ts";
import { errorCatalog } from "../../src/api/errors.ts";

const TERMS = [
  "claim",
  "cordon",
  "drain",
  "flapping",
  "gate",
  "lost",
  "queue",
  "replica",
  "revision",
  "slot",
  "withdrawn",
];

const page = readFileSync(path.join(packageRoot(), "docs", "glossary.md"), "utf8");
const terms = [...page.matchAll(/^\| ([a-z A-Z]+) \| /gm)].map(([, term = ""]) => term).slice(1);

test("the terms are in alphabetical order, each once", () => {
  expect(terms).toEqual([...new Set(terms)].sort((a, b) => a.localeCompare(b, "en")));
});

test.each(TERMS)("%s, which messages use, is explained", (term) => {
  const isUsed = Object.values(errorCatalog).some(({ what, do: remedy }) =>
    new RegExp(`\\b${term}`, "i").test(`${what} ${remedy}`),
  );
  expect([term, isUsed]).toEqual([term, true]);
  expect(terms).toContain(term);
});
