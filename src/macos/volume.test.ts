import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createRunCommand } from "../util/command.ts";
import { capacityWithPurging, excludeFromBackup } from "./volume.ts";

/** Tools that answer as macOS does, first on a PATH. */
async function tools(scripts: Readonly<Record<string, string>>) {
  const folder = await mkdtemp(join(tmpdir(), "mb-tools-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(folder, name), 0o755);
  }
  return { folder, run: createRunCommand(`${folder}:/usr/bin:/bin`) };
}

test("the models are excluded from Time Machine once, and it is known whether that worked", async () => {
  const tmutil = [
    'echo "$1" >> "$(dirname "$0")/asked"',
    'case "$1" in',
    '  addexclusion) touch "$(dirname "$0")/excluded" ;;',
    '  isexcluded) if [ -f "$(dirname "$0")/excluded" ]; then echo "[Excluded]    $2"; else echo "[Included]    $2"; fi ;;',
    "esac",
  ].join("\n");
  const { folder, run } = await tools({ tmutil });
  expect(await excludeFromBackup(run, "/models")).toBe(true);
  expect(await excludeFromBackup(run, "/models")).toBe(true);
  const asked = (await readFile(join(folder, "asked"), "utf8")).trim().split("\n");
  expect(asked).toEqual(["isexcluded", "addexclusion", "isexcluded", "isexcluded"]);
  const refused = await tools({ tmutil: 'echo "[Included]    $2"' });
  expect(await excludeFromBackup(refused.run, "/models")).toBe(false);
  expect(await excludeFromBackup((await tools({})).run, "/models")).toBe(false);
});

test("space that macOS frees on demand is a number, or unknown", async () => {
  expect(await capacityWithPurging((await tools({ osascript: "echo 250000000000" })).run, "/")).toBe(25e10);
  expect(await capacityWithPurging((await tools({ osascript: "echo undefined" })).run, "/")).toBeUndefined();
  expect(await capacityWithPurging((await tools({})).run, "/")).toBeUndefined();
});
