import { expect, test } from "vitest";
import { dependencies, dependents, isTest, unitTests } from "./import-graph.ts";

const graph = dependencies(
  Object.entries({
    "src/a.ts": "",
    "src/a.test.ts": 'import { a } from "./a.ts";',
    "src/types.ts": 'import type { A } from "./a.ts";',
    "src/types.test.ts": 'import { b } from "./types.ts";',
    "src/golden.test.ts": 'readFile(path.join(import.meta.dirname, "golden", name))',
    "src/drain.engine.test.ts": "",
    "cli/main.ts": 'const { a } = await import("../src/a.ts");',
    "cli/metalbridge.mjs": "// metalbridge.mjs starts the bundle",
    "test/bed/part.ts": 'path.join(root, "cli", "metalbridge.mjs")',
    "test/integration/drain.test.ts": 'import { startPart } from "../bed/part.ts";',
  }).map(([file, text]) => ({ file, text })),
);

const tests = (...changed: readonly string[]) => dependents(graph, changed).filter(isTest).toSorted();

test.each([
  ["a file that others import", ["src/a.ts"], ["src/a.test.ts", "test/integration/drain.test.ts"]],
  ["a file of which only types are imported", ["src/types.ts"], ["src/types.test.ts"]],
  ["a test", ["src/types.test.ts"], ["src/types.test.ts"]],
  ["a file in a folder that a test reads", ["src/golden/one.yaml"], ["src/golden.test.ts"]],
  ["the program", ["cli/main.ts"], ["test/integration/drain.test.ts"]],
  ["a page that no code names", ["docs/other.md"], []],
])("a change of %s can break the tests that depend on it", (_, changed, expected) => {
  expect(tests(...changed)).toEqual(expected);
});

test("a change of the packages can break every test", () => {
  expect(tests("package-lock.json")).toHaveLength(5);
});

test("a unit test neither starts a program of ours nor needs an engine", () => {
  expect(unitTests(graph).toSorted()).toEqual(["src/a.test.ts", "src/golden.test.ts", "src/types.test.ts"]);
});
