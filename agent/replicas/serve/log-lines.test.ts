/** A log is looked through once, line by line, however it grows and shrinks. */
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { readNewLines } from "./log-lines.ts";

it("reads only new and complete lines of the log", async () => {
  await using folder = await temporaryFolder();
  const log = join(folder.path, "log");
  expect(await readNewLines(join(folder.path, "log"), 0)).toBeUndefined();
  writeFileSync(log, "one\ntwo\nthr");
  expect(await readNewLines(join(folder.path, "log"), 0)).toEqual({ text: "one\ntwo\n", seenTo: 8 });
  expect(await readNewLines(join(folder.path, "log"), 8)).toEqual({ text: "", seenTo: 8 });
  appendFileSync(log, "ee\n");
  expect(await readNewLines(join(folder.path, "log"), 8)).toEqual({ text: "three\n", seenTo: 14 });
  expect(await readNewLines(join(folder.path, "log"), 14)).toBeUndefined();
});

it("starts from the beginning after a rotation", async () => {
  await using folder = await temporaryFolder();
  writeFileSync(join(folder.path, "log"), "new\n");
  expect(await readNewLines(join(folder.path, "log"), 9_000)).toEqual({ text: "new\n", seenTo: 4 });
});

it("reads only the end of a large log, and skips a line without an end", async () => {
  await using folder = await temporaryFolder();
  writeFileSync(join(folder.path, "log"), `${"x".repeat(1_000)}\nlast\n`);
  expect(await readNewLines(join(folder.path, "log"), 0, 8)).toEqual({ text: "xx\nlast\n", seenTo: 1_006 });
  appendFileSync(join(folder.path, "log"), "y".repeat(20));
  expect(await readNewLines(join(folder.path, "log"), 1_006, 8)).toEqual({ text: "yyyyyyyy", seenTo: 1_026 });
});

it("reads at most its limit at a time, and everything below the limit", async () => {
  await using folder = await temporaryFolder();
  const log = join(folder.path, "log");
  const parts = fc.array(fc.array(fc.nat(60), { maxLength: 12 }), { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(parts, fc.integer({ min: 1, max: 200 }), async (given, largest) => {
      writeFileSync(log, "");
      let seenTo = 0;
      for (const lengths of given) {
        const text = lengths.map((length) => `${"x".repeat(length)}\n`).join("");
        appendFileSync(log, text);
        const found = await readNewLines(log, seenTo, largest);
        if (text === "") expect(found).toBeUndefined();
        else expect(found?.text).toBe(text.slice(-largest));
        seenTo = found?.seenTo ?? seenTo;
      }
    }),
    { numRuns: 50 },
  );
});
