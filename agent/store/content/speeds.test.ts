import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { silentLog } from "../fixtures/store.ts";
import { openSpeeds } from "./speeds.ts";

const A = "a".repeat(64);
const B = "b".repeat(64);

test("a measured speed survives an agent restart, and is written only when the reported speed changes", async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, "speeds.json");
  const speeds = await openSpeeds(path, silentLog);
  expect(speeds.of(A)).toBeUndefined();
  await speeds.note(A, 41.7);
  expect(speeds.of(A)).toBe(42);
  const { mtimeMs, ino } = await stat(path);
  await speeds.note(A, 44);
  expect(await stat(path)).toMatchObject({ mtimeMs, ino });
  // Each of the ten notes moves the average by a fifth of the difference.
  for (let count = 0; count < 10; count++) await speeds.note(A, 21);
  expect(speeds.of(A)).toBeLessThan(26);
  await Promise.all([speeds.note(B, 7), speeds.note(A, 80)]);

  const again = await openSpeeds(path, silentLog);
  expect(again.of(A)).toBe(speeds.of(A));
  expect(again.of(B)).toBe(7);
});

test.each([
  "{",
  "{}",
  `{"version":1,"tokensPerSecond":{"${A}":-1}}`,
  `{"version":1,"tokensPerSecond":{"x":1}}`,
])("unreadable speeds are measured again: %s", async (content) => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, "speeds.json");
  await writeFile(path, content);
  const speeds = await openSpeeds(path, silentLog);
  expect(speeds.of(A)).toBeUndefined();
  await speeds.note(A, 10);
  expect(JSON.parse(await readFile(path, "utf8"))).toEqual({ version: 1, tokensPerSecond: { [A]: 10 } });
});

test("the speeds of the most recently measured contents are kept, out of thousands", async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, "speeds.json");
  const name = (index: number) => index.toString(16).padStart(64, "0");
  const many = Array.from({ length: 1_000 }, (_, index) => [name(index), 1]);
  await writeFile(path, JSON.stringify({ version: 1, tokensPerSecond: Object.fromEntries(many) }));
  const speeds = await openSpeeds(path, silentLog);
  await speeds.note(A, 10);
  expect([speeds.of(name(0)), speeds.of(name(1)), speeds.of(A)]).toEqual([undefined, 1, 10]);
});
