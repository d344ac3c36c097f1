import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { POLICY_NAMES } from "../src/api/access/host-policies.ts";
import { verbs } from "./verbs.ts";

const program = path.join(import.meta.dirname, "metalbridge.mjs");
const run = (...args: string[]) => spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });

test("help names every verb", () => {
  const { status, stdout } = run("--help");
  expect(status).toBe(0);
  for (const { name, summary } of verbs)
    expect(stdout).toMatch(new RegExp(`${name} .*${summary.slice(0, 20)}`));
});

test("help groups the verbs by what a reader comes for", () => {
  const [, ...sections] = run("--help").stdout.split(/\n(?=\S.*:\n)/);
  for (const verb of verbs)
    expect(sections.find((section) => section.startsWith(verb.heading))).toMatch(
      new RegExp(`^  ${verb.name} `, "m"),
    );
});

test.each(verbs.map(({ name }) => name))("%s --help shows its options", (name) => {
  const { status, stdout } = run(name, "--help");
  expect(status).toBe(0);
  expect(stdout).toMatch(new RegExp(`Usage: metalbridge ${name}`));
});

test("the version is the package's", () => {
  const { version } = JSON.parse(readFileSync(path.join(import.meta.dirname, "..", "package.json"), "utf8"));
  expect(run("--version").stdout.trim()).toBe(version);
});

test.each([
  ["nonsense"],
  ["up", "--nonsense"],
  ["up", "--port", "70000"],
  ["up", "--port", "1.5"],
  ["agent", "--port-range", "22000-21000"],
])("%s %s is refused with exit code 2 and a pointer to help", (...args) => {
  const { status, stderr } = run(...args);
  expect(status).toBe(2);
  expect(stderr).toMatch(/error: .*\n.*--help/);
});

test("down without a control plane says what is to be done", () => {
  const { status, stderr } = run("down", "--dir", "/nonexistent");
  expect(status).toBe(1);
  expect(stderr).toMatch(/^ControlPlaneNotRunning: /);
});

test("crds prints YAML that names all four kinds", () => {
  const { status, stdout } = run("crds");
  expect(status).toBe(0);
  const names = [...stdout.matchAll(/^ {4}kind: (\w+)$/gm)].map(([, kind]) => kind);
  expect(names).toEqual(expect.arrayContaining(["Model", "InferenceService", "InferenceReplica", "Host"]));
  for (const policy of POLICY_NAMES)
    expect(stdout).toContain(`kind: ValidatingAdmissionPolicy\nmetadata:\n  name: ${policy}\n`);
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
    const agent = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    const text = { stdout: "", stderr: "" };
    agent.stdout.on("data", (chunk) => (text.stdout += chunk));
    agent.stderr.on("data", (chunk) => (text.stderr += chunk));
    await vi.waitFor(() => expect(text.stderr).toMatch(/"host":"small".*"msg":"agent started"/), 60_000);
    const running = readFileSync(`/proc/${agent.pid}/cmdline`, "utf8").split("\0");
    expect(running).toEqual(expect.arrayContaining(["--optimize-for-size", "--no-opt", ...args]));
    agent.kill("SIGTERM");
    expect(await once(agent, "exit")).toEqual([0, null]);
    expect(text.stdout).toBe("");
    rmSync(stateDir, { recursive: true });
  },
);
