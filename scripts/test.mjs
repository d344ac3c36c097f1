/**
 * `npm test [-- vitest arguments]`: setup, then every test of the project "tests" on the right Node; the last line is the sum.
 * `npm run test:system` runs the projects "torture" and "system", `npm run test:changed [-- REVISION]` what a change can break, `npm test --
 * --unit` only tests that start no program of ours. With `--rerun-failed` a failed file runs once more, alone; if it passes then,
 * a line reports it as flaky. `--save-costs` saves what the files of a whole run have cost.
 */
import { execFileSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { ensureParts, root } from "./setup/parts.mjs";
import { runMain } from "./setup/steps.mjs";
import { costsToSave, judgeCosts, MAX_CPU_SECONDS, statedReason } from "./tests/costs.mjs";
import { makeRunFolder, removeRunFolder } from "./tests/leftovers.mjs";
import { ONLY_FAILED_FILES } from "./tests/only-failed-files.mjs";
import {
  failedFiles,
  failures,
  passedAlone,
  projectsOf,
  summarize,
  withRerun,
} from "./tests/test-summary.mjs";

/** With `--rerun-failed` at most so many failed files run once more, each alone. */
const MAX_FLAKY = 2;
const COSTS = join(root, "test", "costs.json");

async function test([...args]) {
  const projects = projectsOf(args);
  const isSystem = projects.some((project) => /system|torture/.test(project));
  const parts = await ensureParts({ purpose: isSystem ? "system" : "test" });
  const startedAt = performance.now();
  const mayRerun = takeFlag(args, "--rerun-failed");
  const saves = takeFlag(args, "--save-costs");
  const selected = selectFiles(parts, args);
  if (selected?.length === 0)
    return printLine("0 passed, 0 failed, 0 skipped", "no test depends on the change");
  const folder = makeRunFolder();
  try {
    const selection = projects.length > 0 ? projects : ["--project=tests"];
    const run = (...more) => runVitest(parts, folder, more);
    const own = projects.length > 0 ? [] : selection;
    const first = await run(...own, ...(selected ?? []), ...args);
    const isWhole = selected === undefined && args.length === 0;
    const tooMuch = reportCosts(first.costs, { isWhole, saves });
    const {
      report,
      code,
      flaky = [],
    } = mayRerun ? await rerunFailed(first, (file) => run(file, ...selection)) : first;
    const { skipped, line, failed } = summarize(report, code, tooMuch.length);
    for (const name of skipped) console.log(`skipped: ${name}`);
    for (const failure of failures(report, root)) console.log(failure);
    console.log(`tests took ${Math.round((performance.now() - startedAt) / 1_000)} s`);
    for (const file of flaky) console.log(`flaky: ${relative(root, file)}`);
    console.log(line);
    return failed > 0 || code !== 0 ? 1 : 0;
  } finally {
    removeRunFolder(folder);
  }
}

function printLine(line, before) {
  console.log(before);
  console.log(line);
  return 0;
}

/** Files that fail beside others and pass alone are flaky. More failed files, and anything else that went wrong, are not retried. */
async function rerunFailed(first, runAlone) {
  const files = failedFiles(first.report);
  if (first.code !== ONLY_FAILED_FILES || files.length === 0 || files.length > MAX_FLAKY) return first;
  if (Date.now() / 1_000 > endBy()) return first;
  let { report } = first;
  const flaky = [];
  for (const file of files) {
    console.log(`\n== once more, alone: ${relative(root, file)}`);
    const rerun = await runAlone(file);
    if (rerun.code !== 0 || !passedAlone(file, first.report, rerun.report)) return { report, code: 1, flaky };
    report = withRerun(report, rerun.report);
    flaky.push(file);
  }
  return { report, code: 0, flaky };
}

/** When what runs the tests ends them, in epoch seconds: then nothing is repeated, and no soak begins. */
function endBy() {
  return Number(process.env.METALBRIDGE_TESTS_END_BY ?? Number.POSITIVE_INFINITY);
}

/** The files of `--unit` or `--changed [REVISION]`, which are taken out of `args`; undefined without either. */
function selectFiles({ node }, args) {
  const select = (...words) => {
    const script = join(root, "scripts", "tests", "select.ts");
    const files = execFileSync(node, [script, ...words], { cwd: root, encoding: "utf8" });
    return files.split("\n").filter((file) => file !== "");
  };
  if (takeFlag(args, "--unit")) return select("--unit");
  if (!takeFlag(args, "--changed")) return undefined;
  const isInTests = (file) => !/\.(system|soak)\.test\.tsx?$/.test(file);
  const all = select("--changed", ...args.splice(0, args[0]?.startsWith("-") === false ? 1 : 0));
  const files = all.filter(isInTests);
  console.log(
    `the change can break ${files.length} test files, and ${all.length - files.length} of test:system`,
  );
  return files;
}

/** Prints what the test files have cost. Returns the files that cost too much. */
function reportCosts(costs, { isWhole, saves }) {
  if (costs === undefined) return [];
  const committed = readJson(COSTS);
  const reasonOf = (file) => statedReason(file, readFileSync(join(root, file), "utf8"));
  const { lines, tooMuch } = judgeCosts(costs, { committed, reasonOf, isWhole });
  for (const line of lines) console.log(line);
  for (const file of tooMuch)
    console.log(
      `failed test: ${file}: takes more than ${MAX_CPU_SECONDS} CPU-s: make it cheaper, or state the reason at its top: \`CPU: ...\``,
    );
  if (saves && isWhole) writeFileSync(COSTS, `${JSON.stringify(costsToSave(costs, committed), null, 2)}\n`);
  return tooMuch;
}

function takeFlag(args, flag) {
  const index = args.indexOf(flag);
  if (index >= 0) args.splice(index, 1);
  return index >= 0;
}

/** Its report and costs, undefined when it wrote none, and its exit code, 1 when a signal ended it. */
async function runVitest(parts, folder, args) {
  const [report, costs] = ["report.json", "costs.json"].map((name) => join(folder, name));
  for (const file of [report, costs]) writeFileSync(file, "");
  const env = {
    ...process.env,
    TMPDIR: folder,
    METALBRIDGE_LLAMA_SERVER: parts.llamaServer,
    // Built a moment ago. Sources that are edited during the run take effect with the next one.
    METALBRIDGE_USE_BUNDLE: "1",
    // Without memory-saving flags: programs start twice as fast, and end with the process that holds their lifeline.
    METALBRIDGE_IS_SMALL: "1",
    // Tests start the same programs hundreds of times: each start compiles nothing that an earlier one has compiled.
    NODE_COMPILE_CACHE: join(root, "node_modules", ".cache", "compiled"),
    METALBRIDGE_TEST_COSTS: costs,
    ...(parts.prometheus === undefined ? {} : { METALBRIDGE_PROMETHEUS: parts.prometheus }),
    // Programs that tests start by `#!/usr/bin/env node` get the same Node.
    PATH: `${dirname(parts.node)}:${process.env.PATH}`,
  };
  const reporters = [
    "--reporter=default",
    "--reporter=json",
    ...["only-failed-files", "cost-reporter"].map(
      (name) => `--reporter=${join(root, "scripts", "tests", `${name}.mjs`)}`,
    ),
    `--outputFile.json=${report}`,
  ];
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const child = spawn(parts.node, [vitest, "run", ...reporters, ...args], {
    cwd: root,
    env,
    stdio: "inherit",
  });
  const forward = () => child.kill("SIGTERM");
  const ignore = () => {};
  process.on("SIGINT", ignore).on("SIGTERM", forward);
  const code = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  }).finally(() => process.off("SIGINT", ignore).off("SIGTERM", forward));
  return { report: readJson(report), costs: readJson(costs), code };
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

await runMain((args) =>
  test(args).catch((error) => {
    console.log("0 passed, 1 failed, 0 skipped");
    throw error;
  }),
);
