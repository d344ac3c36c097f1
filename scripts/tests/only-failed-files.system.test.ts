/** Real runs of vitest: the exit code says whether failed test files are all that went wrong. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { ONLY_FAILED_FILES } from "./only-failed-files.mjs";

const VITEST = path.resolve(import.meta.dirname, "../../node_modules/vitest/vitest.mjs");
const REPORTER = path.join(import.meta.dirname, "only-failed-files.mjs");
const FAILED = "test('one', () => { throw new Error('no') });";
const PASSED = "test('one', () => {});";

async function run(files: Readonly<Record<string, string>>, config = "{}") {
  await using folder = await temporaryFolder();
  for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder.path, name), content);
  await writeFile(path.join(folder.path, "vitest.config.mjs"), `export default { test: ${config} };`);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("VITEST")));
  const args = [VITEST, "run", "--globals", "--reporter=default", `--reporter=${REPORTER}`];
  const child = spawn(process.execPath, args, { cwd: folder.path, env, stdio: ["ignore", "pipe", "pipe"] });
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await once(child, "exit");
  return { code, output: (await output).join("") };
}

test.each([
  ["every test passes", { "a.test.mjs": PASSED }, "{}", 0],
  ["a test fails", { "a.test.mjs": FAILED, "b.test.mjs": PASSED }, "{}", ONLY_FAILED_FILES],
  ["a file cannot be loaded", { "a.test.mjs": "import './missing.mjs';" }, "{}", ONLY_FAILED_FILES],
  [
    "a hook fails",
    { "a.test.mjs": `afterAll(() => { throw new Error("no") }); ${PASSED}` },
    "{}",
    ONLY_FAILED_FILES,
  ],
  [
    "an error occurs outside of tests too",
    { "a.test.mjs": FAILED, "b.test.mjs": `Promise.reject(new Error("late")); ${PASSED}` },
    "{}",
    1,
  ],
  [
    "a worker is killed too",
    { "a.test.mjs": FAILED, "b.test.mjs": "test('one', () => process.kill(process.pid, 'SIGKILL'));" },
    "{ maxWorkers: 1 }",
    1,
  ],
  [
    "the teardown fails too",
    { "a.test.mjs": FAILED, "global.mjs": "export function teardown() { throw new Error('no') }" },
    "{ globalSetup: ['global.mjs'] }",
    1,
  ],
  [
    "the setup fails",
    { "a.test.mjs": FAILED, "global.mjs": "export function setup() { throw new Error('no') }" },
    "{ globalSetup: ['global.mjs'] }",
    1,
  ],
  [
    "the run is stopped",
    {
      "a.test.mjs": FAILED,
      "b.test.mjs":
        "test('one', async () => { process.kill(process.ppid, 'SIGTERM'); await new Promise(() => {}) });",
    },
    "{ maxWorkers: 1, fileParallelism: false }",
    143,
  ],
  ["there is no test file", {}, "{}", 1],
])("where %s", async (_, files, config, expected) => {
  const { code, output } = await run(files, config);
  expect(code, output).toBe(expected);
});
