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

const use = (from: string) => `import { x } from "${from}";\n\nexport const y = x;\n`;

const cases: readonly Case[] = [
  { file: "src/capacity/a.ts", text: use("node:fs"), rule: "noRestrictedImports" },
  { file: "src/capacity/b.ts", text: use("pino"), rule: "noRestrictedImports" },
  { file: "src/capacity/c.ts", text: use("@kubernetes/client-node"), rule: "noRestrictedImports" },
  { file: "src/capacity/d.ts", text: use("../kube/client.ts"), rule: "noRestrictedImports" },
  { file: "src/capacity/e.ts", text: use("../../agent/x.ts"), rule: "noRestrictedImports" },
  {
    file: "src/capacity/f.ts",
    text: "export const y = () => fetch(String(1));\n",
    rule: "noRestrictedGlobals",
  },
  { file: "src/capacity/g.ts", text: "export const y = process.version;\n", rule: "noRestrictedGlobals" },
  { file: "src/capacity/h.ts", text: "export const y = setTimeout;\n", rule: "noRestrictedGlobals" },
  { file: "src/capacity/ok.ts", text: use("zod") },
  { file: "src/capacity/hash.ts", text: use("node:crypto") },
  { file: "src/a.ts", text: use("node:fs"), rule: "noRestrictedImports" },
  { file: "src/b.ts", text: use("../agent/x.ts"), rule: "noRestrictedImports" },
  { file: "src/plain-file.ts", text: use("node:fs") },
  { file: "src/api/a.ts", text: use("../models/x.ts"), rule: "noRestrictedImports" },
  { file: "src/models/a.ts", text: use("../engines/x.ts"), rule: "noRestrictedImports" },
  { file: "src/engines/a.ts", text: use("../capacity/x.ts"), rule: "noRestrictedImports" },
  { file: "src/engines/llamacpp/b.ts", text: use("node:fs"), rule: "noRestrictedImports" },
  { file: "src/kube/b.ts", text: use("../models/x.ts"), rule: "noRestrictedImports" },
  { file: "src/hub/a.ts", text: use("../engines/x.ts"), rule: "noRestrictedImports" },
  { file: "src/hub/ok.ts", text: use("node:https") },
  { file: "src/http/a.ts", text: use("../kube/x.ts"), rule: "noRestrictedImports" },
  { file: "src/macos/a.ts", text: use("../kube/x.ts"), rule: "noRestrictedImports" },
  { file: "src/linux/a.ts", text: use("../kube/client/client.ts"), rule: "noRestrictedImports" },
  { file: "src/linux/b.ts", text: use("node:fs"), rule: "noRestrictedImports" },
  { file: "src/linux/c.ts", text: use("../../controller/x.ts"), rule: "noRestrictedImports" },
  { file: "src/linux/ok.ts", text: use("../kube/workload-objects.ts") },
  { file: "src/capacity/k.ts", text: use("../linux/x.ts"), rule: "noRestrictedImports" },
  { file: "src/doctor/a.ts", text: use("node:fs"), rule: "noRestrictedImports" },
  { file: "src/doctor/b.ts", text: use("../macos/x.ts"), rule: "noRestrictedImports" },
  { file: "src/capacity/j.ts", text: use("../doctor/x.ts"), rule: "noRestrictedImports" },
  { file: "src/macos/ok.ts", text: use("node:child_process") },
  { file: "agent/replicas/plan/a.ts", text: use("node:fs"), rule: "noRestrictedImports" },
  { file: "agent/replicas/plan/b.ts", text: use("../../../src/kube/x.ts"), rule: "noRestrictedImports" },
  { file: "agent/pressure/governor/a.ts", text: use("node:fs"), rule: "noRestrictedImports" },
  { file: "local/a.ts", text: use("../cli/x.ts"), rule: "noRestrictedImports" },
  { file: "local/ok.ts", text: use("../agent/ok.ts") },
  { file: "src/kube/a.ts", text: use("../../controller/x.ts"), rule: "noRestrictedImports" },
  { file: "src/kube/ok.ts", text: use("node:https") },
  { file: "agent/a.ts", text: use("../controller/x.ts"), rule: "noRestrictedImports" },
  { file: "agent/b.ts", text: use("../cli/x.ts"), rule: "noRestrictedImports" },
  { file: "agent/deep/c.ts", text: use("../../controller/x.ts"), rule: "noRestrictedImports" },
  { file: "agent/d.ts", text: "export const y = process.env.HOME;\n", rule: "noProcessEnv" },
  { file: "agent/e.ts", text: 'console.log("x");\n', rule: "noConsole" },
  { file: "agent/f.ts", text: use("./testing/x.ts"), rule: "noRestrictedImports" },
  { file: "agent/testing/ok.ts", text: use("../../controller/x.ts") },
  { file: "agent/ok.ts", text: use("../src/capacity/ok.ts") },
  { file: "controller/a.ts", text: use("../agent/x.ts"), rule: "noRestrictedImports" },
  { file: "controller/b.ts", text: use("../launchd/x.ts"), rule: "noRestrictedImports" },
  { file: "controller/c.ts", text: use("../server/x.ts"), rule: "noRestrictedImports" },
  { file: "server/a.ts", text: use("../controller/x.ts"), rule: "noRestrictedImports" },
  { file: "server/density/a.ts", text: use("node:fs"), rule: "noRestrictedImports" },
  { file: "server/density/b.ts", text: use("../../src/kube/client/x.ts"), rule: "noRestrictedImports" },
  { file: "server/density/ok.ts", text: use("../../src/kube/workload-objects.ts") },
  { file: "server/ok.ts", text: use("../src/kube/ok.ts") },
  { file: "controller/ok.ts", text: use("../src/kube/ok.ts") },
  { file: "launchd/a.ts", text: use("../agent/x.ts"), rule: "noRestrictedImports" },
  { file: "cli/a.ts", text: use("../scripts/x.ts"), rule: "noRestrictedImports" },
  { file: "cli/b.ts", text: use("../test/x.ts"), rule: "noRestrictedImports" },
  { file: "cli/ok.ts", text: use("../agent/ok.ts") },
  { file: "scripts/a.ts", text: use("../test/fixtures/x.ts"), rule: "noRestrictedImports" },
  { file: "scripts/ok.ts", text: use("../test/bed/farm.ts") },
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
