import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { root } from "./project/root.ts";

const STEPS = { tests: "test", system: "run test:system", checks: "run check" } as const;
type Step = keyof typeof STEPS;
interface Outcome {
  readonly prints: string;
  readonly code?: number;
}

const GOOD: Readonly<Record<Step, Outcome>> = {
  tests: { prints: "10 passed, 0 failed, 1 skipped" },
  system: { prints: "5 passed, 0 failed, 0 skipped" },
  checks: { prints: "6 passed, 0 failed, 0 skipped" },
};

/** Runs `.ci/run` with programs in the place of node and npm. */
async function runWith(outcomes: Partial<Record<Step, Outcome>>, setupCode = 0) {
  await using folder = await temporaryFolder();
  const at = (...names: string[]) => path.join(folder.path, ...names);
  for (const name of [".ci", "bin", "node_modules"]) await mkdir(at(name));
  await copyFile(path.join(root, ".ci/run"), at(".ci/run"));
  await writeFile(at("package-lock.json"), "{}");
  // The tests of whole systems end after the checks have started.
  const marker = at("checks-started");
  const first: Partial<Record<Step, string>> = {
    checks: `: > ${marker};`,
    system: `while [ ! -e ${marker} ]; do sleep 0.02; done;`,
  };
  const cases = Object.entries({ ...GOOD, ...outcomes }).map(
    ([step, { prints, code = 0 }]) =>
      `"${STEPS[step as Step]}"*) ${first[step as Step] ?? ""} echo "${prints}"; exit ${code} ;;\n`,
  );
  await writeFile(at("bin/npm"), `#!/bin/sh\ncase "$*" in\n${cases.join("")}esac\nexit 99\n`);
  await writeFile(at("bin/node"), `#!/bin/sh\necho "setup: $*"\nexit ${setupCode}\n`);
  for (const name of ["npm", "node"]) await chmod(at("bin", name), 0o755);
  const env = { ...process.env, PATH: `${at("bin")}:${process.env.PATH}` };
  return await new Promise<{ readonly code: number; readonly lines: readonly string[] }>((resolve) => {
    const child = execFile("bash", [at(".ci/run")], { env }, (_error, stdout) =>
      resolve({ code: child.exitCode ?? -1, lines: stdout.trim().split("\n") }),
    );
  });
}

test("setup provides every part, then all steps run, the checks beside the last tests; the output of each stands under its name, and the sum is last", async () => {
  const { code, lines } = await runWith({});
  expect(lines.filter((line) => !/^took /.test(line))).toEqual([
    "== setup",
    "setup: scripts/setup.mjs --for system",
    "== lock file",
    "== tests",
    GOOD.tests.prints,
    "== tests of whole systems",
    GOOD.system.prints,
    "== checks",
    GOOD.checks.prints,
    "23 passed, 0 failed, 1 skipped",
  ]);
  expect(lines.at(-2)).toMatch(
    /^took setup \d+ s, lock file \d+ s, tests \d+ s, tests of whole systems \d+ s; \d+ s in all$/,
  );
  expect(code).toBe(0);
});

test.each<[string, Partial<Record<Step, Outcome>>, string, string]>([
  [
    "a failed test and a failed check",
    {
      tests: { prints: "9 passed, 1 failed, 1 skipped", code: 1 },
      checks: { prints: "4 passed, 2 failed, 0 skipped", code: 1 },
    },
    "failed: tests: 1 failed; checks: 2 failed",
    "20 passed, 3 failed, 1 skipped",
  ],
  [
    "a step that ends without a sum",
    { system: { prints: "no memory", code: 137 }, checks: { prints: "no disk", code: 2 } },
    "failed: tests of whole systems exited with 137; checks exited with 2",
    "12 passed, 2 failed, 1 skipped",
  ],
  [
    "a step that fails although no test did",
    { checks: { prints: GOOD.checks.prints, code: 1 } },
    "failed: checks exited with 1",
    "23 passed, 1 failed, 1 skipped",
  ],
  [
    "a step that runs nothing",
    { system: { prints: "0 passed, 0 failed, 0 skipped" } },
    "failed: tests of whole systems ran nothing",
    "18 passed, 1 failed, 1 skipped",
  ],
  [
    "three flaky files",
    {
      tests: { prints: `flaky: a\nflaky: b\n${GOOD.tests.prints}` },
      system: { prints: `flaky: c\n${GOOD.system.prints}` },
    },
    "failed: more than 2 flaky files",
    "23 passed, 1 failed, 1 skipped",
  ],
])("%s fails the run, which names it", async (_, outcomes, failed, sum) => {
  const { code, lines } = await runWith(outcomes);
  expect(lines.slice(-2)).toEqual([failed, sum]);
  expect(code).toBe(1);
});

test("two flaky files are listed, and pass", async () => {
  const tests = { prints: `flaky: a\nflaky: b\n${GOOD.tests.prints}` };
  const { code, lines } = await runWith({ tests });
  expect(lines.slice(-3)).toEqual(["flaky: a", "flaky: b", "23 passed, 0 failed, 1 skipped"]);
  expect(code).toBe(0);
});

test("the tests that failed are named again at the end", async () => {
  const failures = ["failed test: a.test.ts > serves: expected 1", "failed test: b.test.ts: no module c"];
  const tests = { prints: `${failures[0]}\n9 passed, 1 failed, 1 skipped`, code: 1 };
  const system = { prints: `${failures[1]}\n4 passed, 1 failed, 0 skipped`, code: 1 };
  const { lines } = await runWith({ tests, system });
  expect(lines.slice(-4)).toEqual([
    ...failures,
    "failed: tests: 1 failed; tests of whole systems: 1 failed",
    "21 passed, 2 failed, 1 skipped",
  ]);
});

test("a failed setup fails the run, and the other steps still run", async () => {
  const { code, lines } = await runWith({}, 1);
  expect(lines.slice(-2)).toEqual(["failed: setup", "22 passed, 1 failed, 1 skipped"]);
  expect(code).toBe(1);
});
