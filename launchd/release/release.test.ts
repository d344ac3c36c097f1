/** Releases that must not be installed, and disks that have no room for them. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { createCommand } from "../../src/util/command.ts";
import {
  archiveOf,
  isRoot,
  LABEL,
  PATIENT,
  PREFIX,
  prepareReleases,
  startMachine,
  sumOf,
} from "../../test/bed/launchd/machine.ts";
import { packEntries } from "../../test/fixtures/engine-archive.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { MANIFEST } from "./manifest.ts";
import { readArchive } from "./stage.ts";

const releases = await prepareReleases();
const [one, two] = [releases.make("1.0.0"), releases.make("1.1.0")];
afterAll(() => releases[Symbol.asyncDispose]());

test.runIf(isRoot)(
  "on a full disk the installed version keeps running, and nothing is left of the new one",
  async () => {
    await using machine = await startMachine();
    mkdirSync(machine.at(PREFIX), { recursive: true });
    const bytes = execFileSync("du", ["-sb", one], { encoding: "utf8" }).split("\t")[0];
    execFileSync("mount", [
      "-t",
      "tmpfs",
      "-o",
      `size=${Math.round(Number(bytes) * 1.6)}`,
      "tmpfs",
      machine.at(PREFIX),
    ]);
    try {
      expect((await machine.run(one, ["install", ...PATIENT])).code).toBe(0);
      const config = machine.read("usr/local/etc/metalbridge/agent.yaml");
      const given = machine.at("given.yaml");
      writeFileSync(given, "logLevel: debug\n");
      const ran = await machine.run(two, ["install", "--config", given]);
      expect(ran).toMatchObject({
        code: 1,
        err: expect.stringMatching(/^InstallDiskFull: cannot copy version 1\.1\.0/),
      });
      expect(machine.read("usr/local/etc/metalbridge/agent.yaml")).toBe(config);
      const archive = archiveOf(two, machine.at("two.tar.gz"));
      expect((await machine.run(machine.installed, ["upgrade", "--archive", archive])).err).toMatch(
        /^InstallDiskFull/,
      );
      expect([machine.current(), machine.versions()]).toEqual(["1.0.0", ["1.0.0"]]);
      expect(await machine.service()).toMatchObject({ agent: { version: "1.0.0", phase: "serving" } });
      await machine.run(machine.installed, ["stop"]);
    } finally {
      execFileSync("umount", ["-l", machine.at(PREFIX)]);
    }
  },
);

test.runIf(isRoot)(
  "a version whose files a power cut left empty is installed again, and the agent is started from it",
  async () => {
    await using machine = await startMachine();
    expect((await machine.run(one, ["install", ...PATIENT])).code).toBe(0);
    const archive = archiveOf(one, machine.at("one.tar.gz"));
    const before = machine.read(`${PREFIX}/versions/1.0.0/cli/metalbridge.mjs`);
    for (const empty of ["cli/metalbridge.mjs", MANIFEST]) {
      const pid = machine.launchd.pidOf(LABEL);
      truncateSync(machine.at(`${PREFIX}/versions/1.0.0/${empty}`));
      const ran = await machine.run(one, ["install", "--archive", archive, ...PATIENT]);
      expect(ran).toMatchObject({ code: 0, err: "", out: expect.stringContaining("copy version 1.0.0") });
      expect(machine.read(`${PREFIX}/versions/1.0.0/cli/metalbridge.mjs`)).toBe(before);
      expect(machine.versions()).toEqual(["1.0.0"]);
      expect(machine.launchd.pidOf(LABEL)).not.toBe(pid);
      expect(await machine.service()).toMatchObject({ agent: { version: "1.0.0", phase: "serving" } });
    }
  },
);

test.each(["a folder", "an archive"])(
  "a version from %s is on the disk before it is in its place",
  async (from) => {
    await using folder = await temporaryFolder();
    const at = (name: string) => path.join(folder.path, name);
    const versions = at("versions");
    mkdirSync(versions);
    const { files } = JSON.parse(readFileSync(path.join(one, MANIFEST), "utf8"));
    const [source, trace] = [from === "a folder" ? one : archiveOf(one, at("one.tar.gz")), at("trace")];
    execFileSync(process.execPath, [
      ...["--trace-event-categories", "node.fs.async", "--trace-event-file-pattern", trace],
      ...[path.join(import.meta.dirname, "../fixtures/staged.ts"), source, versions],
    ]);
    const synced: string[] = [];
    const order = callsIn(trace).flatMap(({ name, path: what = "" }) => {
      if (name === "rename" && what === path.join(versions, "1.0.0"))
        return [`rename after ${synced.length} files`];
      if (name !== "fsync") return [];
      if (what === versions) return ["sync versions"];
      if (statSync(path.join(versions, "1.0.0", withinPartial(what))).isFile())
        synced.push(withinPartial(what));
      return [];
    });
    expect(synced.sort()).toEqual([MANIFEST, ...Object.keys(files)].sort());
    expect(order).toEqual([`rename after ${synced.length} files`, "sync versions"]);
  },
);

test.runIf(isRoot)("an archive is installed only with its sum, whole, and for this machine", async () => {
  await using machine = await startMachine();
  const folder = machine.at("downloads");
  mkdirSync(folder);
  const good = archiveOf(one, path.join(folder, "good.tar.gz"));
  const upgrade = (archive: string, ...args: string[]) =>
    machine.run(one, ["install", "--archive", archive, ...args]);
  const err = async (archive: string, ...args: string[]) => (await upgrade(archive, ...args)).err;
  expect(await err(path.join(folder, "none.tar.gz"))).toMatch(/^ReleaseSumMissing/);
  expect(await err(good, "--sha256", "0".repeat(64))).toMatch(/^ReleaseSumMismatch/);
  const cut = path.join(folder, "cut.tar.gz");
  execFileSync("cp", [good, cut]);
  truncateSync(cut, Math.round(statSync(cut).size / 2));
  expect(await err(cut)).toMatch(/^ReleaseSumMissing/);
  writeFileSync(`${cut}.sha256`, readFileSync(`${good}.sha256`, "utf8").replace("good", "cut"));
  expect(await err(cut)).toMatch(/^ReleaseSumMismatch/);
  expect(await err(cut, "--sha256", sumOf(cut))).toMatch(/^ReleaseInvalid: .*cannot be unpacked/);
  const damaged = releases.make("1.0.0");
  writeFileSync(path.join(damaged, "cli", "metalbridge.mjs"), "changed");
  expect(await err(archiveOf(damaged, path.join(folder, "damaged.tar.gz")))).toMatch(
    /^ReleaseInvalid: cli\/metalbridge\.mjs has the SHA-256/,
  );
  const linux = releases.make("1.0.0", { platform: "linux" });
  expect(await err(archiveOf(linux, path.join(folder, "linux.tar.gz")))).toMatch(
    /^ReleaseInvalid: version 1\.0\.0 is for linux-/,
  );
  expect(machine.versions()).toEqual([]);
  expect((await upgrade(good, ...PATIENT)).code).toBe(0);
  const older = archiveOf(releases.make("0.9.0"), path.join(folder, "older.tar.gz"));
  expect((await machine.run(machine.installed, ["upgrade", "--archive", older])).err).toMatch(
    /^DowngradeRefused: version 0\.9\.0 is older than the installed 1\.0\.0/,
  );
  expect(machine.versions()).toEqual(["1.0.0"]);
  expect(await machine.service()).toMatchObject({ current: "1.0.0", agent: { version: "1.0.0" } });
});

test("the name of an archive's folder is not read as an option of tar", async () => {
  await using folder = await temporaryFolder();
  const archive = path.join(folder.path, "a.tar.gz");
  const text = readFileSync(path.join(one, MANIFEST));
  const sha256 = await packEntries(archive, [{ name: `-C/${MANIFEST}`, text }]);
  const read = readArchive(archive, createCommand(process.env.PATH ?? ""), sha256);
  await expect(read).resolves.toMatchObject({ version: "1.0.0" });
});

/** Asynchronous calls to the file system as Node traces them; one that has no path has that of the last open file. */
function callsIn(trace: string): readonly { readonly name: string; readonly path: string | undefined }[] {
  const { traceEvents } = JSON.parse(readFileSync(trace, "utf8"));
  let opened: string | undefined;
  return traceEvents.flatMap(({ ph, name, args }: TraceEvent) => {
    if (ph !== "b") return [];
    if (name === "open") opened = args.path;
    return [{ name, path: args.new_path ?? opened }];
  });
}

interface TraceEvent {
  readonly ph: string;
  readonly name: string;
  readonly args: { readonly path?: string; readonly new_path?: string };
}

const withinPartial = (file: string) => file.replace(/^.*\.partial\/?/, "");
