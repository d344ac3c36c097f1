import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { isDiskFull, requireFreeSpace } from "./disk.ts";

const canMount = process.platform === "linux" && mountsWork();

test("a folder that does not exist yet is judged by the disk that will hold it", async () => {
  await using folder = await temporaryFolder();
  const dir = path.join(folder.path, "new", "deep");
  await requireFreeSpace(dir, 1, "of nothing");
  await expect(requireFreeSpace(dir, 2 ** 60, "a log is allocated")).rejects.toMatchObject({
    code: "StateDiskFull",
    message: expect.stringMatching(/has .+ free; .+ are needed: a log is allocated$/),
  });
});

test.skipIf(!canMount)(`a disk counts as full when etcd cannot allocate its log there`, async () => {
  await using folder = await temporaryFolder();
  const disk = path.join(folder.path, "disk");
  mkdirSync(disk);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=130m", "tmpfs", disk]);
  try {
    expect(isDiskFull(disk)).toBe(false);
    writeFileSync(path.join(disk, "filled"), Buffer.alloc(4 * 2 ** 20));
    expect(isDiskFull(path.join(disk, "filled"))).toBe(true);
  } finally {
    execFileSync("umount", [disk]);
  }
  expect(isDiskFull(path.join(folder.path, "nothing", "here"))).toBe(false);
});

function mountsWork(): boolean {
  try {
    execFileSync("unshare", ["--mount", "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
