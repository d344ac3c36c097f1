/** Releases that must not be installed, and disks that have no room for them. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import {
  archiveOf,
  isRoot,
  PATIENT,
  PREFIX,
  prepareReleases,
  startMachine,
  sumOf,
} from "../../test/bed/launchd/machine.ts";

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
      const ran = await machine.run(two, ["upgrade"]);
      expect(ran).toMatchObject({
        code: 1,
        err: expect.stringMatching(/^InstallDiskFull: cannot copy version 1\.1\.0/),
      });
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
  200_000,
);

test.runIf(isRoot)(
  "an archive is installed only with its sum, whole, and for this machine",
  async () => {
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
  },
  200_000,
);
