/** `metalbridge upgrade` before anything is changed: archives that are not there, and the plan. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { addHost } from "../../test/bed/identity.ts";
import { runVerb } from "../../test/cli/program.ts";
import { oneCluster } from "../../test/cluster/cluster.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";

const cluster = oneCluster();

/** What is read of an archive without unpacking it. */
function writeArchive(folder: string): string {
  mkdirSync(path.join(folder, "release"));
  const manifest = { version: "1.0.0", platform: "darwin-arm64", node: "24.0.0", files: {} };
  writeFileSync(path.join(folder, "release", "release.json"), JSON.stringify(manifest));
  const archive = path.join(folder, "release.tar.gz");
  execFileSync("tar", ["-czf", archive, "-C", folder, "release"]);
  const sum = createHash("sha256").update(readFileSync(archive)).digest("hex");
  writeFileSync(`${archive}.sha256`, `${sum}  release.tar.gz\n`);
  return archive;
}

test("a dry run fails as the upgrade would where a host is unreachable", async () => {
  await using folder = await temporaryFolder();
  const archive = writeArchive(folder.path);
  await addHost(cluster(), "silent", ["192.0.2.1"]);
  const ended = await runVerb(["upgrade", "--all", "--archive", archive, "--dry-run"], cluster());
  expect(ended.stdout).toMatch(/^-\s+silent\s+unreachable$/m);
  expect(ended.stderr).toMatch(/^UpgradeIncomplete: silent would be left out: unreachable/);
  expect(ended.code).toBe(1);
});

test.each([[[]], [["--all"]]])(
  "an archive that does not exist is what is missing, and not its checksum %j",
  async (where) => {
    const ended = await runVerb(["upgrade", "--archive", "/none.tar.gz", ...where], cluster());
    expect(ended.stderr).toMatch(/^ReleaseInvalid: \/none.tar.gz cannot be read: ENOENT/);
    expect(ended.code).toBe(1);
  },
);
