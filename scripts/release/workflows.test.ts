/** The workflows of .github without GitHub: a linter, what they run exists, and nothing from outside becomes part of a script. */
import { execFileSync } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { findActionlint } from "../setup/go-programs.mjs";
import { releaseFiles } from "./build-release.ts";

interface Step {
  readonly name?: string;
  readonly run?: string;
  readonly uses?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly uses?: string;
  readonly permissions?: object;
  readonly "timeout-minutes"?: number;
  readonly steps?: readonly Step[];
}

interface Workflow {
  readonly permissions?: object;
  readonly concurrency?: object;
  readonly jobs: Readonly<Record<string, Job>>;
}

const root = path.resolve(import.meta.dirname, "../..");
const folder = path.join(root, ".github", "workflows");
const names = readdirSync(folder);
const textOf = (name: string) => readFileSync(path.join(folder, name), "utf8");
const jobsOf = (name: string) => Object.entries((parse(textOf(name)) as Workflow).jobs);
const stepsOf = (name: string) => jobsOf(name).flatMap(([, { steps = [] }]) => steps);

const actionlint = findActionlint();
const needsActionlint = actionlint === undefined ? " (needs actionlint: npm run setup -- --for test)" : "";

test.skipIf(actionlint === undefined)(`actionlint finds nothing in the workflows${needsActionlint}`, () => {
  const files = names.map((name) => path.join(folder, name));
  // The same response everywhere, whether shellcheck is installed or not.
  const args = ["-no-color", "-shellcheck=", "-pyflakes=", ...files];
  expect(execFileSync(actionlint ?? "", args, { cwd: root, encoding: "utf8" })).toBe("");
});

test.for(names)("%s: every job has a time limit and no more rights than it names", (name) => {
  const { permissions, concurrency } = parse(textOf(name)) as Workflow;
  expect(concurrency).toBeDefined();
  expect([{}, { contents: "read" }]).toContainEqual(permissions);
  for (const [job, { uses, steps, "timeout-minutes": minutes }] of jobsOf(name)) {
    expect(minutes !== undefined || uses !== undefined, job).toBe(true);
    expect(steps !== undefined || uses?.startsWith("./"), job).toBe(true);
  }
});

test.for(names)("%s: actions are pinned by commit, with the version beside it", (name) => {
  for (const line of textOf(name)
    .split("\n")
    .filter((one) => /\buses: [^.]/.test(one)))
    expect(line).toMatch(/uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
});

test.for(names)("%s: no expression is part of a script, where it could be code", (name) => {
  for (const { run = "" } of stepsOf(name)) expect(run).not.toContain("${{");
});

test.for(names)("%s: what fails in front of a pipe fails its step", (name) => {
  const pipes = stepsOf(name).filter(({ run = "" }) => /[^|]\|\s+\w/.test(run));
  for (const { run } of pipes) expect(run).toMatch(/^set -o pipefail/);
});

test.for(names)("%s: every npm script and every file that it runs exists", (name) => {
  const { scripts } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
  for (const { run = "" } of stepsOf(name)) {
    const commands = [...run.matchAll(/npm (?:run (?:--silent )?)?([a-z:]+)/g)].map(
      ([, script]) => script ?? "",
    );
    for (const script of commands.filter((one) => !["install", "ci"].includes(one)))
      expect(Object.keys(scripts)).toContain(script);
    for (const [program] of run.matchAll(/(?<![\w/])(?:scripts|cli|\.ci)\/[\w./-]+/g)) {
      expect(existsSync(path.join(root, program)), program).toBe(true);
      const isInterpreted = /\.m?[jt]s$/.test(program);
      if (!isInterpreted) accessSync(path.join(root, program), constants.X_OK);
    }
  }
});

test("the release workflow publishes every file that npm run release writes", () => {
  const upload = stepsOf("release.yml").find(({ run }) => run?.includes("gh release upload"))?.run ?? "";
  const listed = [...upload.matchAll(/release\/((?:metalbridge-\$version)?[\w.-]+)/g)].map(
    ([, name]) => name,
  );
  const published = listed.map((name) => name?.replace("$version", "1.2.3"));
  // The text of the release, and what the workflow itself adds.
  const more = ["release-notes.md", "SHA256SUMS.sigstore.json"];
  const forRegistry = ["chart", "image"];
  const expected = [...releaseFiles("1.2.3").filter((name) => !forRegistry.includes(name)), ...more];
  expect([...new Set(published)].sort()).toEqual([...new Set(expected)].sort());
});

test("what is published has the sums of both builds, which the job loads itself", () => {
  const steps = Object.fromEntries(jobsOf("release.yml")).publish?.steps ?? [];
  const indexOf = (isIt: (step: Step) => unknown) => steps.findIndex(isIt);
  const sums = indexOf((step) => step.with?.pattern === "sums-*");
  const compared = indexOf(({ run = "" }) =>
    ["one", "two"].every((build) => run.includes(`diff sums-${build}/SHA256SUMS release/SHA256SUMS`)),
  );
  const checked = indexOf(({ run }) => run?.startsWith("sha256sum --check --strict"));
  const pushed = indexOf(({ run }) => run?.includes("push.ts"));
  expect(sums).toBeGreaterThan(-1);
  expect(compared).toBeGreaterThan(sums);
  expect(checked).toBeGreaterThan(compared);
  expect(pushed).toBeGreaterThan(checked);
});
