import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { createProgress } from "../steps.mjs";
import { ensureNodeParts, findNodeParts } from "./node-parts.mjs";

const NAMES = [
  "containerd",
  "containerd-shim-runc-v2",
  "ctr",
  "runc",
  "ptp",
  "host-local",
  "loopback",
  "pause",
];

test("the cache's folder counts once it holds every program", async () => {
  await using folder = await temporaryFolder();
  const versions = `1.6.20-1.1.5-1.1.1-${process.platform}-${process.arch}`;
  const parts = path.join(folder.path, "node", versions);
  await mkdir(parts, { recursive: true });
  const env = { METALBRIDGE_CACHE: folder.path, PATH: "" };
  for (const name of NAMES) {
    expect(findNodeParts(env)).toBeUndefined();
    await writeFile(path.join(parts, name), "");
    await chmod(path.join(parts, name), 0o755);
  }
  expect(findNodeParts(env)).toBe(parts);
});

test("where they cannot be had, setup says why and what is skipped, and continues", async () => {
  await using folder = await temporaryFolder();
  const lines: string[] = [];
  const progress = createProgress({ write: (text: string) => lines.push(text) > 0 });
  const env = { METALBRIDGE_CACHE: folder.path, PATH: "" };
  expect(await ensureNodeParts({ progress, env })).toBeUndefined();
  expect(lines.join("")).toMatch(/no parts of a real node \(.+\): tests with containers are skipped/);
  expect(await readdir(folder.path)).toEqual([]);
});
