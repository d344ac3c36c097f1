import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const biome = path.join(root, "node_modules", ".bin", "biome");
const canLint = existsSync(biome);

interface Case {
  readonly file: string;
  readonly text: string;
  /** The rule that must fire; undefined when the file must pass. */
  readonly rule?: string;
}

const cases: readonly Case[] = [
  {
    file: "src/capacity/f.ts",
    text: "export const y = () => fetch(String(1));\n",
    rule: "noRestrictedGlobals",
  },
  { file: "src/capacity/g.ts", text: "export const y = process.version;\n", rule: "noRestrictedGlobals" },
  { file: "src/capacity/h.ts", text: "export const y = setTimeout;\n", rule: "noRestrictedGlobals" },
  { file: "agent/d.ts", text: "export const y = process.env.HOME;\n", rule: "noProcessEnv" },
  { file: "agent/e.ts", text: 'console.log("x");\n', rule: "noConsole" },
  { file: "src/capacity/BadName.ts", text: "export const y = 1;\n", rule: "useFilenamingConvention" },
  { file: "src/capacity/i.ts", text: "export default 1;\n", rule: "noDefaultExport" },
];

interface Diagnostic {
  readonly category: string;
  readonly location: { readonly path: string | { readonly file: string } };
}

let found: ReadonlyMap<string, readonly string[]> = new Map();
let folder = "";

beforeAll(async () => {
  if (!canLint) return;
  folder = await mkdtemp(path.join(tmpdir(), "metalbridge-lint-"));
  await copyConfiguration(folder);
  for (const { file, text } of cases) {
    await mkdir(path.dirname(path.join(folder, file)), { recursive: true });
    await writeFile(path.join(folder, file), text);
  }
  found = await lint(folder);
});

afterAll(() => rm(folder, { recursive: true, force: true }));

test.skipIf(!canLint).for(cases)(
  `$file: $rule${canLint ? "" : " (skipped: Biome is not installed here)"}`,
  ({ file, rule }) => {
    const rules = found.get(file) ?? [];
    if (rule === undefined) expect(rules).toEqual([]);
    else expect(rules).toContain(rule);
  },
);

/** The repository's own configuration, less what needs a git repository around it. */
async function copyConfiguration(target: string): Promise<void> {
  const configuration = JSON.parse(await readFile(path.join(root, "biome.json"), "utf8")) as Record<
    string,
    unknown
  >;
  await writeFile(
    path.join(target, "biome.json"),
    JSON.stringify({ ...configuration, vcs: { enabled: false } }),
  );
  await symlink(path.join(root, "node_modules"), path.join(target, "node_modules"));
}

/** Names of the rules that fired, by file. */
async function lint(target: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const output = await new Promise<string>((resolve) => {
    const args = ["lint", "--reporter=json", "--max-diagnostics=none", "."];
    const options = { cwd: target, maxBuffer: 64 * 1024 * 1024, timeout: 170_000 };
    execFile(biome, args, options, (_error, stdout) => resolve(stdout));
  });
  const { diagnostics } = JSON.parse(output) as { diagnostics: Diagnostic[] };
  const byFile = new Map<string, string[]>();
  for (const { category, location } of diagnostics) {
    const file = typeof location.path === "string" ? location.path : location.path.file;
    const rules = byFile.get(file) ?? [];
    rules.push(category.split("/").at(-1) ?? category);
    byFile.set(file, rules);
  }
  return byFile;
}
