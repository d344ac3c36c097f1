import { spawnSync } from "node:child_process";
import { stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { packageRoot } from "../../package-root.ts";
import { ensureFolder } from "./folder.ts";

test("ensureFolder creates a folder and its missing parents for this user only", async () => {
  await using folder = await temporaryFolder();
  const dir = path.join(folder.path, "a b", "ö");
  await ensureFolder(dir);
  await ensureFolder(dir);
  for (const created of [dir, path.dirname(dir)]) expect((await stat(created)).mode & 0o777).toBe(0o700);
});

test("ensureFolder names a file that has the path of the folder or of its parent", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "file");
  await writeFile(file, "");
  await expect(ensureFolder(file)).rejects.toThrow(/EEXIST.*file/);
  await expect(ensureFolder(path.join(file, "below"))).rejects.toMatchObject({
    code: "StateFolderUnusable",
    message: expect.stringContaining("ENOTDIR"),
  });
});

test.runIf(process.platform === "linux")(
  "metalbridge up fails at once if the system allows no folder at the path",
  () => {
    const program = path.join(packageRoot(), "cli", "metalbridge.mjs");
    const ran = spawnSync(process.execPath, [program, "up", "--dir", "/proc/metalbridge"], {
      encoding: "utf8",
      timeout: 60_000,
      killSignal: "SIGKILL",
    });
    expect(ran.stderr).toContain("StateFolderUnusable: /proc/metalbridge");
    expect(ran.status).toBe(1);
  },
);
