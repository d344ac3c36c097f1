import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { POLICY_NAMES } from "../src/api/access/host-policies.ts";
import { until } from "../test/bed/until.ts";
import { runProgram, runVerb } from "../test/cli/program.ts";
import { verbs } from "./verbs.ts";

const program = path.join(import.meta.dirname, "metalbridge.mjs");

test("help groups the verbs by what a reader comes for", async () => {
  const { code, stdout } = await runProgram(["--help"]);
  expect(code).toBe(0);
  const [, ...sections] = stdout.split(/\n(?=\S.*:\n)/);
  for (const { name, summary, heading } of verbs)
    expect(sections.find((section) => section.startsWith(heading))).toMatch(
      new RegExp(`^  ${name} .*${summary.slice(0, 20)}`, "m"),
    );
});

// Other tests run a verb in their own process: here each is started as users start it.
test.each(verbs.map(({ name }) => name))("%s --help shows its options", async (name) => {
  expect(await runProgram([name, "--help"])).toEqual({
    code: 0,
    stdout: expect.stringMatching(new RegExp(`Usage: metalbridge ${name}`)),
    stderr: "",
  });
});

test("the version is the package's, by the option and by the verb", async () => {
  const { version } = JSON.parse(readFileSync(path.join(import.meta.dirname, "..", "package.json"), "utf8"));
  for (const words of [["--version"], ["version"]])
    expect(await runVerb(words)).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

test.each([
  ["nonsense"],
  ["up", "--nonsense"],
  ["up", "--port", "70000"],
  ["up", "--port", "1.5"],
  ["agent", "--port-range", "22000-21000"],
])("%s %s is refused with exit code 2 and a pointer to help", async (...args) => {
  expect(await runVerb(args)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/error: .*\n.*--help/),
  });
});

test.each([
  ["get servics", "'servics' is not valid for <kind>. It must be services, models", "services", "get"],
  ["get serv", "'serv' is not valid for <kind>", "services", "get"],
  ["get services -o jsn", "'jsn' is not valid for -o, --output <format>", "json", "get"],
  ["get services --wach", "unknown option '--wach'", "--watch", "get"],
  ["completion bsh", "'bsh' is not valid for <shell>", "bash", "completion"],
  ["deplo", "unknown command 'deplo'", "deploy", ""],
  ["help deploy2", "unknown command 'deploy2'", "deploy", ""],
  ["deploy2 --help", "unknown command 'deploy2'", "deploy", ""],
  ["help models lst", "unknown command 'lst'", "list", "models"],
  ["models help lst", "unknown command 'lst'", "list", "models"],
  [
    "models list vm",
    "unexpected argument 'vm': metalbridge models list takes no argument",
    "--host vm",
    "models list",
  ],
  ["get services a b", "unexpected argument 'b': metalbridge get takes only <kind> <name>", undefined, "get"],
  ["xyzzy", "unknown command 'xyzzy'", undefined, ""],
])("%s is explained with the word that was meant", async (line, what, meant, verb) => {
  const { code, stderr } = await runVerb(line.split(" "));
  expect(code).toBe(2);
  const [first, ...rest] = stderr.trimEnd().split("\n");
  expect(first).toContain(`error: ${what}`);
  const help = `(run ${`metalbridge ${verb}`.trim()} --help for usage)`;
  expect(rest).toEqual(meant === undefined ? [help] : [`(Did you mean ${meant}?)`, help]);
});

test("down without a control plane says what is to be done", async () => {
  expect(await runProgram(["down", "--dir", "/nonexistent"])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^ControlPlaneNotRunning: /),
  });
});

test("crds prints YAML that names all four kinds", async () => {
  const { code, stdout } = await runProgram(["crds"]);
  expect(code).toBe(0);
  const names = [...stdout.matchAll(/^ {4}kind: (\w+)$/gm)].map(([, kind]) => kind);
  expect(names).toEqual(expect.arrayContaining(["Model", "InferenceService", "InferenceReplica", "Host"]));
  for (const policy of POLICY_NAMES)
    expect(stdout).toContain(`kind: ValidatingAdmissionPolicy\nmetadata:\n  name: ${policy}\n`);
});

test.each([
  ["in a verb", "throw error"],
  ["outside of every promise", "setImmediate(() => { throw error })"],
])("a bug %s prints a stack that names sources", (_where, fail) => {
  const breaks = `process.stdout.write = () => { const error = new TypeError("boom"); ${fail}; };`;
  const args = ["--import", `data:text/javascript,${encodeURIComponent(breaks)}`, program, "crds"];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect(status).toBeGreaterThan(0);
  expect(stderr).toMatch(/TypeError: boom\n.*\n +at writeOut \(\S*\/cli\/program\/output\.ts:\d+:\d+\)\n/);
  for (const line of stderr.split("\n")) expect(line.length).toBeLessThan(300);
});

test("an agent whose Node was removed under it by an upgrade runs on without the flags", () => {
  const removed = "data:text/javascript,process.execPath = '/nowhere/node'";
  const args = ["--import", removed, program, "agent", "--help"];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect(status).toBe(0);
  expect(stdout).toMatch(/Usage: metalbridge agent/);
});

test.skipIf(process.platform !== "linux")(
  "the agent becomes a small Node under the same pid, keeps Node's own options, and logs to standard error (needs /proc)",
  async () => {
    const stateDir = mkdtempSync(path.join(tmpdir(), "metalbridge-small-"));
    const config = ["--state-dir", stateDir, "--kubeconfig", "/nonexistent", "--host-name", "small"];
    const args = ["--no-deprecation", program, "agent", ...config];
    const { METALBRIDGE_IS_SMALL: _, ...env } = process.env;
    const agent = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env });
    const text = { stdout: "", stderr: "" };
    agent.stdout.on("data", (chunk) => (text.stdout += chunk));
    agent.stderr.on("data", (chunk) => (text.stderr += chunk));
    await until(() => expect(text.stderr).toMatch(/"host":"small".*"msg":"agent started"/));
    const running = readFileSync(`/proc/${agent.pid}/cmdline`, "utf8").split("\0");
    expect(running).toEqual(expect.arrayContaining(["--optimize-for-size", "--no-opt", ...args]));
    agent.kill("SIGTERM");
    expect(await once(agent, "exit")).toEqual([0, null]);
    expect(text.stdout).toBe("");
    rmSync(stateDir, { recursive: true });
  },
);
