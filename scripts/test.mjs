/**
 * `npm test [-- vitest arguments]`: setup, then every test except the soaks on the right Node; the last line is the sum.
 * `npm test -- --project soak` runs the soaks, `npm test -- --unit` only tests that need no control plane. With
 * `--rerun-failed` a failed file runs once more, alone; if it passes then, a line reports it as flaky.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { ONLY_FAILED_FILES } from "./setup/only-failed-files.mjs";
import { runMain } from "./setup/steps.mjs";
import { failedFiles, passedAlone, projectsOf, summarize, withRerun } from "./setup/test-summary.mjs";
import { ensureParts, root } from "./setup.mjs";

/** With `--rerun-failed` at most so many failed files run once more, each alone. */
const MAX_FLAKY = 2;

async function test([...args]) {
  const parts = await ensureParts({ purpose: "test" });
  const folder = mkdtempSync(join(tmpdir(), "metalbridge-report-"));
  const startedAt = performance.now();
  const mayRerun = takeFlag(args, "--rerun-failed");
  if (takeFlag(args, "--unit")) args.push(...unitTests());
  try {
    const projects = projectsOf(args);
    const selection = projects.length > 0 ? projects : ["--project=!soak"];
    const run = (...more) => runVitest(parts, folder, more);
    const slowest = `--reporter=${join(root, "scripts", "setup", "slowest-files.mjs")}`;
    const first = await run(slowest, ...(projects.length > 0 ? [] : selection), ...args);
    const {
      report,
      code,
      flaky = [],
    } = mayRerun ? await rerunFailed(first, (file) => run(file, ...selection)) : first;
    const { skipped, line, failed } = summarize(report, code);
    for (const name of skipped) console.log(`skipped: ${name}`);
    console.log(`tests took ${Math.round((performance.now() - startedAt) / 1_000)} s`);
    for (const file of flaky) console.log(`flaky: ${relative(root, file)}`);
    console.log(line);
    return failed > 0 || code !== 0 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Files that fail beside others and pass alone are flaky. More failed files, and anything else that went wrong, are not retried. */
async function rerunFailed(first, runAlone) {
  const files = failedFiles(first.report);
  if (first.code !== ONLY_FAILED_FILES || files.length === 0 || files.length > MAX_FLAKY) return first;
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

/** Test files that need no control plane. Vitest ignores `--exclude` in projects. */
function unitTests() {
  const files = execFileSync("git", ["ls-files", "*.test.ts"], { cwd: root, encoding: "utf8" });
  const isUnit = (file) => !/\.(cluster|soak)\.test\.ts$|^test\/(cluster|integration)\//.test(file);
  return files.trim().split("\n").filter(isUnit);
}

function takeFlag(args, flag) {
  const index = args.indexOf(flag);
  if (index >= 0) args.splice(index, 1);
  return index >= 0;
}

/** Its report, undefined when it wrote none, and its exit code, 1 when a signal ended it. */
async function runVitest(parts, folder, args) {
  const report = join(folder, "report.json");
  rmSync(report, { force: true });
  const env = {
    ...process.env,
    METALBRIDGE_LLAMA_SERVER: parts.llamaServer,
    // Built a moment ago. Sources that are edited during the run take effect with the next one.
    METALBRIDGE_USE_BUNDLE: "1",
    // Tests start the same programs hundreds of times: each start compiles nothing that an earlier one has compiled.
    NODE_COMPILE_CACHE: join(root, "node_modules", ".cache", "compiled"),
    ...(parts.prometheus === undefined ? {} : { METALBRIDGE_PROMETHEUS: parts.prometheus }),
    // Programs that tests start by `#!/usr/bin/env node` get the same Node.
    PATH: `${dirname(parts.node)}:${process.env.PATH}`,
  };
  const reporters = [
    "--reporter=default",
    "--reporter=json",
    `--reporter=${join(root, "scripts", "setup", "only-failed-files.mjs")}`,
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
  return { report: readReport(report), code };
}

function readReport(file) {
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
