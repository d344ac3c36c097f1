/** `npm run check`: everything that is checked without running tests; reports all failures, the sum last. */
import { spawn } from "node:child_process";
import { root } from "./project/root.ts";

interface Check {
  readonly name: string;
  readonly script: readonly string[];
  readonly remedy: string;
}

const checks: readonly Check[] = [
  { name: "format and lint", script: ["run", "--silent", "lint"], remedy: "npm run format" },
  { name: "types", script: ["run", "--silent", "types"], remedy: "read the messages above" },
  { name: "unused code", script: ["run", "--silent", "unused"], remedy: "remove what nothing uses" },
  {
    name: "structure",
    script: ["run", "--silent", "structure"],
    remedy: "import as scripts/structure/layers.ts allows, without circles",
  },
  {
    name: "one option less",
    script: ["run", "--silent", "options"],
    remedy: "let only controller/options/registry.ts import options",
  },
  {
    name: "words",
    script: ["run", "--silent", "words"],
    remedy: "write the word that the message names (scripts/words/rules.ts)",
  },
  {
    name: "generated files",
    script: ["run", "--silent", "generate", "--", "--check"],
    remedy: "npm run generate, and commit what it writes",
  },
];

interface Outcome {
  readonly check: Check;
  readonly passed: boolean;
  readonly output: string;
  readonly ms: number;
}

function runCheck(check: Check): Promise<Outcome> {
  const started = performance.now();
  return new Promise((resolve) => {
    const child = spawn("npm", [...check.script], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    const chunks: Buffer[] = [];
    child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => chunks.push(chunk));
    const finish = (passed: boolean) => {
      const output = Buffer.concat(chunks).toString("utf8");
      resolve({ check, passed, output, ms: performance.now() - started });
    };
    child.once("error", () => finish(false));
    child.once("close", (code) => finish(code === 0));
  });
}

const outcomes: Outcome[] = [];
for (const check of checks) {
  const outcome = await runCheck(check);
  outcomes.push(outcome);
  const seconds = (outcome.ms / 1000).toFixed(1);
  console.log(`${outcome.passed ? "✓" : "✗"} ${check.name.padEnd(18)} ${seconds} s`);
}
const failed = outcomes.filter((outcome) => !outcome.passed);
for (const { check, output } of failed)
  console.log(`\n── ${check.name} ──\n${output.trim()}\n→ ${check.remedy}`);
console.log(`${outcomes.length - failed.length} passed, ${failed.length} failed, 0 skipped`);
process.exitCode = failed.length === 0 ? 0 : 1;
