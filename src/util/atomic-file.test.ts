import { mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { writeFileAtomic, writeFileAtomicSync } from "./atomic-file.ts";

it.each([
  ["asynchronously", writeFileAtomic],
  ["synchronously", async (path: string, text: string) => writeFileAtomicSync(path, text)],
])("replaces a file %s, for its owner only, and leaves nothing of a failed write", async (_, write) => {
  const folder = mkdtempSync(join(tmpdir(), "metalbridge-atomic-"));
  const path = join(folder, "file");
  await write(path, "old");
  await write(path, "new");
  expect(readFileSync(path, "utf8")).toBe("new");
  expect(statSync(path).mode & 0o777).toBe(0o600);
  mkdirSync(join(folder, "taken"));
  await expect(write(join(folder, "taken"), "text")).rejects.toThrow();
  expect(readdirSync(folder).sort()).toEqual(["file", "taken"]);
});
