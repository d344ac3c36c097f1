/** A machine whose folder of models hangs, as one on a network volume does. */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test, vi } from "vitest";
import { systemClock } from "../../src/kube/system-clock.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { rootsUnder } from "../host/linux/roots.ts";
import { createNodeReader } from "./read.ts";

test("a folder that hangs does not delay reports, is logged once, and is read once it answers", async () => {
  await using folder = await temporaryFolder();
  const manifest = join(folder.path, "models/manifests/registry.ollama.ai/library/qwen3/8b");
  mkdirSync(dirname(manifest), { recursive: true });
  mkdirSync(join(folder.path, "proc"));
  writeFileSync(join(folder.path, "proc/meminfo"), "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n");
  // Opening it waits for a writer.
  execFileSync("mkfifo", [manifest]);
  const warnings: string[] = [];
  const reader = createNodeReader({
    roots: rootsUnder(folder.path),
    installed: { homes: [], folders: [join(folder.path, "models")] },
    run: async () => undefined,
    clock: { ...systemClock, after: (ms, fire) => systemClock.after(Math.min(ms, 20), fire) },
    log: { ...quietLog, warn: (_, message) => warnings.push(message) },
  });
  try {
    for (const _ of [1, 2, 3]) {
      expect(await reader.read()).toMatchObject({
        memory: { totalBytes: 2 ** 30 },
        models: [],
        leftOut: ["models: their folders do not answer"],
      });
    }
    expect(warnings).toEqual(["folders of models do not answer; reporting the models that were found last"]);
  } finally {
    const writer = await open(manifest, "w");
    await writer.writeFile(JSON.stringify({ layers: [{ size: 7 }] }));
    await writer.close();
    execFileSync("rm", [manifest]);
    writeFileSync(manifest, JSON.stringify({ layers: [{ size: 7 }] }));
  }
  await vi.waitFor(
    async () => {
      const { models, leftOut } = await reader.read();
      expect(models).toEqual([{ name: "ollama://qwen3:8b", runtime: "ollama", sizeBytes: 7 }]);
      expect(leftOut).toEqual([]);
    },
    { timeout: 60_000, interval: 20 },
  );
});
