import { expect, test } from "vitest";
import { failedFiles, failures, passedAlone, projectsOf, summarize, withRerun } from "./test-summary.mjs";

test("nothing that went wrong counts as a success", () => {
  const report = {
    testResults: [
      {
        status: "passed",
        assertionResults: [{ status: "passed" }, { status: "skipped", fullName: "s: needs root" }],
      },
      { status: "failed", assertionResults: [{ status: "failed" }, { status: "passed" }] },
      { status: "failed", assertionResults: [] },
    ],
  };
  expect(summarize(report, 1)).toMatchObject({
    line: "2 passed, 2 failed, 1 skipped",
    skipped: ["s: needs root"],
  });
  expect(summarize(undefined, 1).line).toBe("0 passed, 1 failed, 0 skipped");
  expect(summarize({ testResults: [] }, 1).failed).toBe(1);
  expect(summarize({ testResults: [] }, 0).failed).toBe(0);
  expect(summarize(undefined, 0).line).toBe("0 passed, 1 failed, 0 skipped");
});

test("each failed test, and each file that could not be loaded, is named with the first lines of its error", () => {
  const report = {
    testResults: [
      {
        name: "/house/a.test.ts",
        status: "failed",
        assertionResults: [
          {
            status: "failed",
            fullName: "a farm serves",
            failureMessages: ["\u001b[31mexpected:\n  1\u001b[39m\n    at x"],
          },
          { status: "failed", fullName: "a farm stops", failureMessages: ["x".repeat(999)] },
          { status: "passed", fullName: "a farm starts" },
        ],
      },
      {
        name: "/house/web/b.test.ts",
        status: "failed",
        message: "no module c\n    at stack",
        assertionResults: [],
      },
      { name: "/house/d.test.ts", status: "passed", assertionResults: [] },
    ],
  };
  expect(failures(report, "/house")).toEqual([
    "failed test: a.test.ts > a farm serves: expected: 1",
    `failed test: a.test.ts > a farm stops: ${"x".repeat(400)}`,
    "failed test: web/b.test.ts: no module c",
  ]);
  expect(failures(undefined, "/house")).toEqual([]);
});

test("a file that ran once more counts as it did then, and only that file", () => {
  const file = (name: string, status: string) => ({ name, status, assertionResults: [{ status }] });
  const report = { testResults: [file("a", "passed"), file("b", "failed"), file("c", "failed")] };
  expect(failedFiles(report)).toEqual(["b", "c"]);
  const after = withRerun(report, { testResults: [file("b", "passed")] });
  expect(failedFiles(after)).toEqual(["c"]);
  expect(summarize(after, 1).line).toBe("2 passed, 1 failed, 0 skipped");
});

test.each([
  [
    "passes",
    [
      ["one", "passed"],
      ["two", "passed"],
    ],
    true,
  ],
  [
    "skips the test that failed",
    [
      ["one", "passed"],
      ["two", "skipped"],
    ],
    false,
  ],
  ["lacks the test that failed", [["one", "passed"]], false],
  [
    "fails in another test",
    [
      ["one", "failed"],
      ["two", "passed"],
    ],
    false,
  ],
  ["runs no test", [], false],
] as const)("a failed file that %s in its second run: cleared %s", (_, tests, cleared) => {
  const report = (states: readonly (readonly [string, string])[]) => {
    const isFailed = states.some(([, status]) => status === "failed");
    const assertionResults = states.map(([fullName, status]) => ({ fullName, status }));
    return { testResults: [{ name: "a", status: isFailed ? "failed" : "passed", assertionResults }] };
  };
  const first = report([
    ["one", "passed"],
    ["two", "failed"],
  ]);
  expect(passedAlone("a", first, report(tests))).toBe(cleared);
});

test("a file that could not be loaded is cleared by a test that passes, and not by skipped ones or a missing report", () => {
  const first = { testResults: [{ name: "a", status: "failed", assertionResults: [] }] };
  const second = (status: string) => ({
    testResults: [{ name: "a", status: "passed", assertionResults: [{ fullName: "one", status }] }],
  });
  expect(passedAlone("a", first, second("passed"))).toBe(true);
  expect(passedAlone("a", first, second("skipped"))).toBe(false);
  expect(passedAlone("a", first, undefined)).toBe(false);
});

test("a second run is of the same projects as the first", () => {
  expect(projectsOf(["--project", "soak", "--bail=1"])).toEqual(["--project", "soak"]);
  expect(projectsOf(["x", "--project=unit"])).toEqual(["--project=unit"]);
});
