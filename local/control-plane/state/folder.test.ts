import { spawnSync } from "node:child_process";
import { stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { packageRoot } from "../../package-root.ts";
import { ensureFolder } from "./folder.ts";

test("it makes what is missing, for this user only", async () => {
  await using folder = await temporaryFolder();
  const dir = path.join(folder.path, "a b", "ö");
  ensureFolder(dir);
  ensureFolder(dir);
  expect((await stat(dir)).mode & 0o777).toBe(0o700);
});

test("a file in the way is named", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "file");
  await writeFile(file, "");
  expect(() => ensureFolder(file)).toThrow(/file is a file, not a folder/);
  expect(() => ensureFolder(path.join(file, "below"))).toThrow(/ENOTDIR|not a folder/);
});

test.runIf(process.platform === "linux")("where the system takes no folders, it says so at once", () => {
  const program = path.join(packageRoot(), "cli", "metalbridge.mjs");
  const ran = spawnSync(process.execPath, [program, "up", "--dir", "/proc/metalbridge"], {
    encoding: "utf8",
    timeout: 60_000,
    killSignal: "SIGKILL",
  });
  expect(ran.stderr).toContain("StateFolderUnusable: /proc/metalbridge");
  expect(ran.status).toBe(1);
});
