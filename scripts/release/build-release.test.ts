import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { readManifest } from "../../launchd/release/manifest.ts";
import { bundleInto } from "../bundle.ts";
import { buildRelease } from "./build-release.ts";
import { PLATFORMS } from "./node.ts";

const run = promisify(execFile);
const here = `${process.platform}-${process.arch}`;
let folder = "";
let sums: Readonly<Record<string, string>> = {};
const build = async (name: string, platforms: readonly string[]) => {
  const bundle = path.join(folder, `${name}-bundle`);
  await bundleInto(bundle);
  const node = path.join(folder, "node");
  writeFileSync(node, `#!/bin/sh\nexec "${process.execPath}" "$@"\n`, { mode: 0o755 });
  const options = { version: "3.2.1", platforms, bundle, out: path.join(folder, name) };
  return buildRelease({
    ...options,
    baseUrl: `file://${folder}/one`,
    nodeFor: () => ({ file: node, version: "24.21.0" }),
  });
};
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "mb-build-"));
  sums = await build("one", PLATFORMS);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("two builds give the same bytes", async () => {
  expect(await build("two", PLATFORMS)).toEqual(sums);
  const names = readdirSync(path.join(folder, "one"));
  expect(names).toEqual(
    [
      "SHA256SUMS",
      "install.sh",
      "krew.yaml",
      "metalbridge-3.2.1.cdx.json",
      ...PLATFORMS.flatMap((one) => [
        `metalbridge-3.2.1-${one}.tar.gz`,
        `metalbridge-3.2.1-${one}.tar.gz.sha256`,
      ]),
      "metalbridge.rb",
    ].sort(),
  );
  for (const name of names)
    expect(
      readFileSync(path.join(folder, "two", name)).equals(readFileSync(path.join(folder, "one", name))),
      name,
    ).toBe(true);
});

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
  const manifest = await readManifest(release);
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
  await run("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: path.join(folder, "one") });
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

test("the bill of materials has every package of production with its hash, and Node", () => {
  const bom = JSON.parse(readFileSync(path.join(folder, "one", "metalbridge-3.2.1.cdx.json"), "utf8"));
  expect(bom).toMatchObject({
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    metadata: { component: { version: "3.2.1" } },
  });
  const names = bom.components.map(({ name }: { name: string }) => name);
  expect(names).toEqual(
    expect.arrayContaining(["commander", "pino", "zod", "yaml", "@kubernetes/client-node", "node"]),
  );
  expect(names).not.toContain("vitest");
  const zod = bom.components.find(({ name }: { name: string }) => name === "zod");
  expect(zod.hashes[0].content).toMatch(/^[0-9a-f]{128}$/);
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
