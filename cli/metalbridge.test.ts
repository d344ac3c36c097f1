import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { verbs } from "./verbs.ts";

const program = path.join(import.meta.dirname, "metalbridge.mjs");
const run = (...args: string[]) => spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });

test("help names every verb", () => {
  const { status, stdout } = run("--help");
  expect(status).toBe(0);
  for (const { name, summary } of verbs)
    expect(stdout).toMatch(new RegExp(`${name} .*${summary.slice(0, 20)}`));
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

test.each([["nonsense"], ["up", "--nonsense"], ["up", "--port", "70000"], ["up", "--port", "1.5"]])(
  "%s %s is refused with exit code 2 and a pointer to help",
  (...args) => {
    const { status, stderr } = run(...args);
    expect(status).toBe(2);
    expect(stderr).toMatch(/error: .*\n.*--help/);
  },
);

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
});
