/**
 * Prints the test files of a selection, one a line: `--changed [REVISION]` those that a change since the revision can break
 * (HEAD by default, and the last commit where nothing differs from it), `--unit` those that start no program of ours.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { gitFiles } from "../project/git-files.ts";
import { root } from "../project/root.ts";
import { dependencies, dependents, type ImportingFile, isTest, unitTests } from "./import-graph.ts";

const CODE = ["*.ts", "*.tsx", "*.mjs"];

function readSources(): readonly ImportingFile[] {
  return gitFiles(root, ...CODE).map((file) => ({ file, text: readFileSync(path.join(root, file), "utf8") }));
}

function git(...args: readonly string[]): readonly string[] {
  const output = execFileSync("git", [...args], { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
  return output.split("\0").filter((name) => name !== "");
}

/** Deleted files too: what imported them has changed as well. */
function changedSince(revision: string | undefined): readonly string[] {
  const since = (from: string) => [
    ...git("diff", "--name-only", "-z", from),
    ...git("ls-files", "-z", "--others", "--exclude-standard"),
  ];
  if (revision !== undefined) return since(revision);
  const uncommitted = since("HEAD");
  return uncommitted.length > 0 ? uncommitted : since("HEAD~1");
}

const [mode, revision] = process.argv.slice(2);
const graph = dependencies(readSources());
const selected = mode === "--unit" ? unitTests(graph) : dependents(graph, changedSince(revision));
for (const file of selected.filter(isTest).toSorted()) console.log(file);
