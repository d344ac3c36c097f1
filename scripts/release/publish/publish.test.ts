/** The scripts that a release workflow runs on a Mac and for the tap. Apple's programs are replaced by ones that record how they were called. */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { checkFiles, readReleaseManifest } from "../../../launchd/release/manifest.ts";
import { sha256Hex } from "../../../src/util/hash.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { git } from "../fixtures/clones.ts";

const run = promisify(execFile);
const PKG = path.join(import.meta.dirname, "..", "pkg.sh");
const TAP = path.join(import.meta.dirname, "tap.sh");
const NAME = "metalbridge-3.2.1-darwin-arm64";
const NATIVE = "node_modules/node-pty/prebuilds/darwin-arm64";

/** Their real output goes where the arguments say; a signature makes a file longer. */
const APPLE = {
  codesign: 'case $1 in --force) for file; do :; done; echo signed >>"$file" ;; esac',
  pkgbuild:
    'cp -R "$2" "$CALLS.root"; cp "$4/postinstall" "$CALLS.postinstall"; for file; do :; done; echo component >"$file"',
  productbuild: 'cp "$2" "$CALLS.distribution"; for file; do :; done; echo product >"$file"',
  productsign: 'for file; do :; done; echo signed product >"$file"',
  pkgutil: "",
  xcrun: "",
  spctl: "",
};

const sumOf = (file: string) => sha256Hex(readFileSync(file));

/** A release archive that has what the script reads, and the programs of a Mac. */
async function prepare(folder: string): Promise<string> {
  const release = path.join(folder, NAME);
  const files: Readonly<Record<string, string>> = {
    "bin/node": `#!/bin/sh\nexec "${process.execPath}" "$@"\n`,
    [`${NATIVE}/pty.node`]: "native\n",
    [`${NATIVE}/spawn-helper`]: "helper\n",
  };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(release, name)), { recursive: true });
    writeFileSync(path.join(release, name), text, { mode: 0o755 });
  }
  const sums = Object.fromEntries(Object.keys(files).map((name) => [name, sumOf(path.join(release, name))]));
  const manifest = { version: "3.2.1", platform: "darwin-arm64", node: "22.23.2", files: sums };
  writeFileSync(path.join(release, "release.json"), JSON.stringify(manifest));
  const archive = path.join(folder, `${NAME}.tar.gz`);
  await run("tar", ["-czf", archive, "-C", folder, NAME]);
  writeFileSync(`${archive}.sha256`, `${sumOf(archive)}  ${NAME}.tar.gz\n`);
  mkdirSync(path.join(folder, "tools"));
  for (const [name, does] of Object.entries(APPLE)) {
    const text = `#!/bin/sh\necho "${name} $*" >>"$CALLS"\n${does}\n`;
    writeFileSync(path.join(folder, "tools", name), text, { mode: 0o755 });
  }
  return archive;
}

function pkg(folder: string, archive: string, env: NodeJS.ProcessEnv = {}) {
  const tools = `${path.join(folder, "tools")}:${process.env.PATH}`;
  const calls = path.join(folder, "calls");
  const all = { ...process.env, PATH: tools, CALLS: calls, ...env };
  return run("sh", [PKG, archive, path.join(folder, "out")], { env: all }).then(
    ({ stdout }) => ({ code: 0, text: stdout, calls: readFileSync(calls, "utf8") }),
    (error) => ({ code: error.code as number, text: String(error.stderr), calls: "" }),
  );
}

const SECRETS = {
  APPLICATION_IDENTITY: "Developer ID Application: A (T)",
  INSTALLER_IDENTITY: "Developer ID Installer: A (T)",
  NOTARY_KEY: "/key.p8",
  NOTARY_KEY_ID: "K",
  NOTARY_ISSUER: "I",
};

test("a signed package holds a release whose sums are those of the signed files, and installs it", async () => {
  await using folder = await temporaryFolder();
  const archive = await prepare(folder.path);
  const at = (...names: string[]) => path.join(folder.path, ...names);
  const { code, text, calls } = await pkg(folder.path, archive, SECRETS);
  expect([code, text.trim()]).toEqual([0, at("out", "metalbridge-3.2.1.pkg")]);
  expect(calls.split("\n").map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual([
    "codesign --verify",
    "codesign --force",
    "codesign --force",
    "pkgbuild --root",
    "productbuild --distribution",
    "productsign --timestamp",
    "pkgutil --check-signature",
    "xcrun notarytool",
    "xcrun stapler",
    "spctl --assess",
    "",
  ]);
  const installed = at("calls.root", "usr", "local", "share", "metalbridge");
  const manifest = await readReleaseManifest(installed);
  if (manifest === undefined) throw new Error("the package has no release.json");
  await checkFiles(installed, manifest);
  expect(readFileSync(path.join(installed, NATIVE, "pty.node"), "utf8")).toBe("native\nsigned\n");
  expect(readFileSync(at("calls.postinstall"), "utf8")).toContain(
    "exec /usr/local/share/metalbridge/bin/metalbridge install",
  );
  expect(readFileSync(at("calls.distribution"), "utf8")).toContain('hostArchitectures="arm64"');
  const sum = sumOf(at("out", "metalbridge-3.2.1.pkg"));
  expect(readFileSync(at("out", "metalbridge-3.2.1.pkg.sha256"), "utf8")).toBe(
    `${sum}  metalbridge-3.2.1.pkg\n`,
  );
});

test("without secrets the package is neither signed nor notarized; half of them, or a wrong archive, is refused", async () => {
  await using folder = await temporaryFolder();
  const archive = await prepare(folder.path);
  const { NOTARY_KEY: _key, ...half } = SECRETS;
  expect((await pkg(folder.path, archive, half)).text).toContain(
    "set all of NOTARY_KEY, NOTARY_KEY_ID and NOTARY_ISSUER",
  );
  const { APPLICATION_IDENTITY: _identity, ...other } = SECRETS;
  expect((await pkg(folder.path, archive, other)).text).toContain(
    "set both APPLICATION_IDENTITY and INSTALLER_IDENTITY",
  );
  const { NOTARY_KEY, NOTARY_KEY_ID, NOTARY_ISSUER } = SECRETS;
  const unsigned = { NOTARY_KEY, NOTARY_KEY_ID, NOTARY_ISSUER };
  expect((await pkg(folder.path, archive, unsigned)).text).toContain("Apple notarizes signed packages only");
  expect(
    (await pkg(folder.path, path.join(folder.path, "metalbridge-3.2.1-linux-x64.tar.gz"))).text,
  ).toContain("is not a release archive for darwin-arm64");
  const { code, calls } = await pkg(folder.path, archive);
  expect([code, calls.split("\n").map((line) => line.split(" ")[0])]).toEqual([
    0,
    ["pkgbuild", "productbuild", ""],
  ]);
  writeFileSync(archive, "damaged");
  expect((await pkg(folder.path, archive)).text).toContain("has the SHA-256");
});

test("the tap gets a commit with the formula, and none where it has it", async () => {
  await using folder = await temporaryFolder();
  const at = (name: string) => path.join(folder.path, name);
  git(folder.path, "init", "--quiet", "--bare", "--initial-branch=main", at("tap.git"));
  const push = (version: string) => {
    writeFileSync(at("metalbridge.rb"), `class Metalbridge < Formula\n  version "${version}"\nend\n`);
    return run("sh", [TAP, at("metalbridge.rb"), at("tap.git")]);
  };
  // git warns that it clones an empty repository.
  expect((await push("1.0.0")).stdout).toBe("metalbridge 1.0.0 is in the tap\n");
  expect((await push("1.0.0")).stdout).toBe("the tap has metalbridge 1.0.0\n");
  expect((await push("1.1.0")).stdout).toBe("metalbridge 1.1.0 is in the tap\n");
  expect(git(at("tap.git"), "log", "--format=%s", "HEAD")).toBe("metalbridge 1.1.0\nmetalbridge 1.0.0");
  expect(git(at("tap.git"), "show", "HEAD:Formula/metalbridge.rb")).toContain('version "1.1.0"');
  expect(existsSync(at("metalbridge.rb"))).toBe(true);
});
