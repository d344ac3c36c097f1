/** A release is built twice, for every platform, and unpacked. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  createReadStream,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createGunzip } from "node:zlib";
import { extract } from "tar-stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { readReleaseManifest } from "../../launchd/release/manifest.ts";
import { sha256Hex } from "../../src/util/hash.ts";
import { releaseFiles } from "./build-release.ts";
import { clone, commit, copyTree, git, linkPackages } from "./fixtures/clones.ts";
import { differences } from "./rebuild.ts";

const run = promisify(execFile);
const here = `${process.platform}-${process.arch}`;
const isRoot = process.geteuid?.() === 0;
/** The account without rights. */
const OTHER_USER = 65_534;
let folder = "";
/** SHA-256 of each archive. */
let sums: Readonly<Record<string, string>> = {};

interface Environment {
  readonly umask?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly uid?: number | undefined;
}

/** By the clone's own code. */
async function build(checkout: string, out: string, { umask = "022", env = {}, uid }: Environment = {}) {
  const node = path.join(folder, "node");
  const tsx = path.join(checkout, "node_modules", "tsx", "dist", "cli.mjs");
  const program = path.join(checkout, "scripts", "release", "fixtures", "build.ts");
  const command = [process.execPath, tsx, program, out, `file://${folder}/one`, node];
  // The Node of this process may lie where the other user may not read.
  if (uid !== undefined) command[0] = path.join(checkout, "node_modules", "node", "bin", "node");
  const all = { ...process.env, ...env };
  await run("sh", ["-c", `umask ${umask} && exec "$@"`, "sh", ...command], {
    cwd: path.dirname(checkout),
    env: all,
    uid,
    gid: uid,
  });
}

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "mb-build-"));
  chmodSync(folder, 0o755);
  writeFileSync(path.join(folder, "node"), `#!/bin/sh\nexec "${process.execPath}" "$@"\n`);
  chmodSync(path.join(folder, "node"), 0o755);
  const tree = path.join(folder, "tree");
  copyTree(tree);
  // A maintainer's way: prepare, commit, tag.
  await run("npm", ["run", "release:prepare", "--", "3.2.1"], { cwd: tree });
  commit(tree, "release 3.2.1");
  git(tree, "tag", "v3.2.1");
  await build(tree, path.join(folder, "one"));
  const archives = readdirSync(path.join(folder, "one")).filter((name) => name.endsWith(".tar.gz"));
  sums = Object.fromEntries(archives.map((name) => [name, sumOf(path.join(folder, "one", name))]));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function sumOf(file: string): string {
  return sha256Hex(readFileSync(file));
}

test("a clone in another folder gives the same bytes, with other times, umask, time zone, language and user", async () => {
  const home = path.join(folder, "further", "down");
  mkdirSync(home, { recursive: true });
  const other = path.join(home, "checkout");
  clone(path.join(folder, "tree"), other);
  for (const name of git(other, "ls-files").split("\n"))
    lutimesSync(path.join(other, name), new Date("2001-02-03"), new Date("2001-02-03"));
  const env = { TZ: "Pacific/Kiritimati", LC_ALL: "C", HOME: home, USER: "other", TMPDIR: home };
  if (isRoot) await run("chown", ["-R", String(OTHER_USER), home]);
  linkPackages(other);
  const out = path.join(home, "two");
  await build(other, out, { umask: "077", env, uid: isRoot ? OTHER_USER : undefined });
  expect(differences(path.join(folder, "one"), out)).toEqual([]);
});

test("a release has these files, and SHA256SUMS has the sum of each", async () => {
  const names = readdirSync(path.join(folder, "one")).sort();
  // The fixture leaves out the image.
  expect(names).toEqual(releaseFiles("3.2.1").filter((name) => !/^image$|-image\.tar$/.test(name)));
  await run("shasum", ["-a", "256", "--check", "--strict", "SHA256SUMS"], { cwd: path.join(folder, "one") });
  const listed = readFileSync(path.join(folder, "one", "SHA256SUMS"), "utf8")
    .trimEnd()
    .split("\n");
  expect(listed.map((line) => line.slice(66))).toEqual(filesIn(path.join(folder, "one")));
  expect(readFileSync(path.join(folder, "one", "release-notes.md"), "utf8")).toContain(
    "First working system",
  );
});

test("every date in a release is that of the commit", async () => {
  const seconds = Number(git(path.join(folder, "tree"), "log", "-1", "--format=%ct"));
  const archive = path.join(folder, "one", `metalbridge-3.2.1-${here}.tar.gz`);
  const dates = new Set<number>();
  const entries = createReadStream(archive).pipe(createGunzip()).pipe(extract());
  for await (const entry of entries) {
    dates.add((entry.header.mtime?.getTime() ?? 0) / 1000);
    entry.resume();
  }
  expect([...dates]).toEqual([seconds]);
  const expected = new Date(seconds * 1000).toISOString().slice(0, 19);
  expect(readJson("metalbridge-3.2.1.spdx.json").creationInfo.created).toBe(`${expected}Z`);
});

/** Every file that has a sum. */
function filesIn(release: string): readonly string[] {
  const names = readdirSync(release, { recursive: true, encoding: "utf8" });
  const isListed = (name: string) => name !== "SHA256SUMS" && statSync(path.join(release, name)).isFile();
  return names.filter(isListed).sort();
}

function readJson(name: string) {
  return JSON.parse(readFileSync(path.join(folder, "one", name), "utf8"));
}

test("an archive holds a program that runs, and the sum of each of its files", async () => {
  const name = `metalbridge-3.2.1-${here}`;
  await run("tar", ["-xzf", path.join(folder, "one", `${name}.tar.gz`), "-C", folder]);
  const release = path.join(folder, name);
  const { stdout } = await run(path.join(release, "bin", "metalbridge"), ["--version"]);
  expect(stdout).toBe("3.2.1\n");
  expect((await run(path.join(release, "bin", "metalbridge"), ["crds"])).stdout).toContain(
    "CustomResourceDefinition",
  );
  const known = run(path.join(release, "bin", "metalbridge"), ["catalog", "show", "Qwen2.5-7B"]);
  expect((await known).stdout).toContain("Qwen/Qwen2.5-7B-Instruct");
  const asLlmfit = run(path.join(release, "bin", "llmfit-cluster-fit"), []);
  await expect(asLlmfit).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("--model") });
  const load = `require(${JSON.stringify(path.join(release, "node_modules", "node-pty"))}).spawn("true", [], {})`;
  await run(path.join(release, "bin", "node"), ["-e", load]);
  const manifest = await readReleaseManifest(release);
  expect(manifest).toMatchObject({ version: "3.2.1", platform: here, node: "24.21.0" });
  const listed = Object.keys(manifest?.files ?? {});
  expect(listed).toEqual(
    expect.arrayContaining([
      "bin/node",
      "bin/llmfit-cluster-fit",
      "dist/metalbridge.mjs",
      "dist/gate.cjs",
      `node_modules/node-pty/prebuilds/${here}/pty.node`,
      "LICENSE",
    ]),
  );
});

/** Says whether an inspector is open whenever it is asked. */
const ASKED = `import { url } from "node:inspector";
console.log(process.execArgv.join(" "));
process.stdin.on("data", () => console.log(url() ?? "none"));
`;

test("the launcher starts a program in which a signal opens no inspector", async () => {
  const name = `metalbridge-3.2.1-${here}`;
  const unpacked = mkdtempSync(path.join(folder, "unpacked-"));
  await run("tar", ["-xzf", path.join(folder, "one", `${name}.tar.gz`), "-C", unpacked]);
  writeFileSync(path.join(unpacked, name, "cli", "metalbridge.mjs"), ASKED);
  const program = spawn(path.join(unpacked, name, "bin", "metalbridge"), { stdio: "pipe" });
  const lines = createInterface({ input: program.stdout })[Symbol.asyncIterator]();
  let errors = "";
  program.stderr.on("data", (text) => (errors += text));
  const ended = once(program, "close");
  try {
    expect((await lines.next()).value).toBe("--disable-sigusr1");
    program.kill("SIGUSR1");
    // An inspector opens from a thread of its own: some turns later.
    for (let turn = 0; turn < 100; turn += 1) {
      program.stdin.write("?");
      expect((await lines.next()).value).toBe("none");
    }
    program.stdin.end();
    expect([await ended, errors]).toEqual([[0, null], ""]);
  } finally {
    program.kill("SIGKILL");
  }
});

interface SpdxPackage {
  readonly SPDXID: string;
  readonly name: string;
  readonly checksums?: readonly { readonly checksumValue: string }[];
}

test("the bill of materials has every package of production with its hash, and Node", () => {
  const { packages, relationships, ...document } = readJson("metalbridge-3.2.1.spdx.json") as {
    readonly packages: readonly SpdxPackage[];
    readonly relationships: readonly { readonly relatedSpdxElement: string }[];
  };
  expect(document).toMatchObject({ spdxVersion: "SPDX-2.3", name: "metalbridge-3.2.1" });
  const names = packages.map(({ name }) => name);
  const expected = ["metalbridge", "commander", "pino", "zod", "yaml", "@kubernetes/client-node", "node"];
  expect(names).toEqual(expect.arrayContaining([...expected, "libc6"]));
  expect(names).not.toContain("vitest");
  const zod = packages.find(({ name }) => name === "zod");
  expect(zod?.checksums?.[0]?.checksumValue).toMatch(/^[0-9a-f]{128}$/);
  const ids = packages.map(({ SPDXID }) => SPDXID);
  expect(new Set(ids).size).toBe(ids.length);
  expect(relationships.map(({ relatedSpdxElement }) => relatedSpdxElement).sort()).toEqual([...ids].sort());
});

test("the provenance names the commit, what was used, and every file with its sum", () => {
  const { subject, predicateType, predicate } = readJson("metalbridge-3.2.1.provenance.json");
  expect(predicateType).toBe("https://slsa.dev/provenance/v1");
  const commitOfTree = git(path.join(folder, "tree"), "rev-parse", "HEAD");
  const { buildDefinition, runDetails } = predicate;
  expect(buildDefinition.externalParameters).toMatchObject({
    version: "3.2.1",
    source: { digest: { gitCommit: commitOfTree } },
  });
  expect(runDetails.builder.id).toContain(commitOfTree);
  const materials: readonly { uri: string; digest: object }[] = buildDefinition.resolvedDependencies;
  expect(materials.map(({ uri }) => uri)).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^pkg:npm\/zod@/),
      expect.stringMatching(/^pkg:npm\/esbuild@/),
    ]),
  );
  for (const { uri, digest } of materials)
    expect(Object.values(digest)[0], uri).toMatch(/^[0-9a-f]{40,128}$/);
  const files = filesIn(path.join(folder, "one")).filter((name) => !name.endsWith(".provenance.json"));
  const expected = Object.fromEntries(files.map((name) => [name, sumOf(path.join(folder, "one", name))]));
  const [chart] = readJson("chart/index.json").manifests;
  expected["ghcr.io/metalbridge/charts/metalbridge"] = chart.digest.replace("sha256:", "");
  const found = subject.map((one: { name: string; digest: { sha256: string } }) => [
    one.name,
    one.digest.sha256,
  ]);
  expect(Object.fromEntries(found)).toEqual(expected);
});

test("the formula has the sum of each platform's archive", () => {
  const formula = readFileSync(path.join(folder, "one", "metalbridge.rb"), "utf8");
  for (const sum of Object.values(sums)) expect(formula).toContain(`sha256 "${sum}"`);
  expect(formula).not.toMatch(/@[A-Z]/);
});

interface Plugin {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly version: string;
    readonly platforms: readonly {
      readonly selector: { readonly matchLabels: { readonly os: string; readonly arch: string } };
      readonly uri: string;
      readonly sha256: string;
      readonly bin: string;
    }[];
  };
}

test("the krew manifest leads to each platform's archive, and what krew links runs", async () => {
  const text = readFileSync(path.join(folder, "one", "krew.yaml"), "utf8");
  expect(text).not.toMatch(/@[A-Z]/);
  const { metadata, spec } = parse(text) as Plugin;
  expect(spec.version).toBe("v3.2.1");
  const names = spec.platforms.map(({ uri }) => path.basename(uri));
  expect(names.sort()).toEqual(Object.keys(sums).sort());
  for (const { uri, sha256 } of spec.platforms) expect(sha256).toBe(sums[path.basename(uri)]);
  const arch = { x64: "amd64", arm64: "arm64" }[process.arch as string];
  const own = spec.platforms.find(
    ({ selector: { matchLabels } }) => matchLabels.os === process.platform && matchLabels.arch === arch,
  );
  // As krew does: unpack, then link the plugin by its name into a folder of the PATH.
  const store = mkdtempSync(path.join(folder, "krew-"));
  await run("tar", ["-xzf", fileURLToPath(own?.uri ?? ""), "-C", store]);
  const plugin = path.join(store, `kubectl-${metadata.name}`);
  symlinkSync(path.join(store, own?.bin ?? ""), plugin);
  expect((await run(plugin, ["--version"])).stdout).toBe("3.2.1\n");
});

/** With the installer's own verb, which says what it would do. */
async function runScript(text: string, base = `file://${folder}/one`) {
  const script = path.join(folder, "script.sh");
  writeFileSync(script, text);
  const env = { ...process.env, METALBRIDGE_BASE_URL: base };
  const root = mkdtempSync(path.join(folder, "root-"));
  return run("sh", [script, "--dry-run", "--root", root], { env }).then(
    ({ stdout }) => ({ code: 0, text: stdout }),
    (error) => ({ code: error.code as number, text: String(error.stderr) }),
  );
}

test("the install script checks the sum, and refuses a truncated or a wrong archive", async () => {
  const script = readFileSync(path.join(folder, "one", "install.sh"), "utf8");
  if (process.geteuid?.() === 0 && process.platform === "linux") {
    const tools = mkdtempSync(path.join(folder, "tools-"));
    writeFileSync(path.join(tools, "systemctl"), "#!/bin/sh\necho ActiveState=inactive\n", { mode: 0o755 });
    const good = await runScript(script.replace("set -eu", `set -eu\nPATH=${tools}:$PATH`));
    expect(good).toMatchObject({ code: 0, text: expect.stringContaining("would copy version 3.2.1") });
  }
  const other = path.join(folder, "other");
  await run("cp", ["-r", path.join(folder, "one"), other]);
  const archive = path.join(other, `metalbridge-3.2.1-${here}.tar.gz`);
  truncateSync(archive, 100_000);
  expect(await runScript(script, `file://${other}`)).toMatchObject({
    code: 1,
    text: expect.stringMatching(/has the SHA-256/),
  });
  writeFileSync(archive, "not an archive");
  expect(await runScript(script, `file://${other}`)).toMatchObject({
    code: 1,
    text: expect.stringMatching(/has the SHA-256/),
  });
  rmSync(archive);
  expect(await runScript(script, `file://${other}`)).toMatchObject({
    code: 1,
    text: expect.stringMatching(/cannot download/),
  });
});

test("a script that was cut off on its way does nothing", async () => {
  const script = readFileSync(path.join(folder, "one", "install.sh"), "utf8");
  const lines = script.split("\n");
  for (const share of [0.3, 0.6, 0.8, 0.95]) {
    const cut = lines.slice(0, Math.floor(lines.length * share)).join("\n");
    expect((await runScript(cut)).text).not.toContain("would");
  }
});
