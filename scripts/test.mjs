/**
 * `npm test [-- vitest arguments]`: setup, then every test but the soaks on the right Node; the last line is the sum.
 * `npm test -- --project soak` runs those.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describeFailure } from "./setup/steps.mjs";
import { summarize } from "./setup/test-summary.mjs";
import { ensureParts, root } from "./setup.mjs";

async function test(args) {
  const parts = await ensureParts({ purpose: "test" });
  const folder = mkdtempSync(join(tmpdir(), "metalbridge-report-"));
  const report = join(folder, "report.json");
  const startedAt = performance.now();
  try {
    const isPart = args.some((arg) => arg.startsWith("--project"));
    const code = await runVitest(parts, [
      "--reporter=default",
      "--reporter=json",
      `--reporter=${join(root, "scripts", "setup", "slowest-files.mjs")}`,
      `--outputFile.json=${report}`,
      ...(isPart ? [] : ["--project=!soak"]),
      ...args,
    ]);
    const { skipped, line, failed } = summarize(readReport(report), code);
    for (const name of skipped) console.log(`skipped: ${name}`);
    console.log(`tests took ${Math.round((performance.now() - startedAt) / 1_000)} s`);
    console.log(line);
    return failed > 0 || code !== 0 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Vitest's own exit code; 1 when a signal ended it. */
function runVitest(parts, args) {
  const env = {
    ...process.env,
    METALBRIDGE_LLAMA_SERVER: parts.llamaServer,
    // Built a moment ago. Sources that are edited during the run take effect with the next one.
    METALBRIDGE_USE_BUNDLE: "1",
    ...(parts.prometheus === undefined ? {} : { METALBRIDGE_PROMETHEUS: parts.prometheus }),
    // Programs that tests start by `#!/usr/bin/env node` get the same Node.
    PATH: `${dirname(parts.node)}:${process.env.PATH}`,
  };
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const child = spawn(parts.node, [vitest, "run", ...args], { cwd: root, env, stdio: "inherit" });
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
}

function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

test(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error) => {
    console.error(describeFailure(error));
    console.log("0 passed, 1 failed, 0 skipped");
    process.exitCode = 1;
  },
);
