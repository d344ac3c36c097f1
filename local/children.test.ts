import { statSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { logTail, startChild } from "./children.ts";

const [, entry = ""] = process.argv;
afterEach(() => {
  process.argv[1] = entry;
});

it("a child starts with a log of limited size, and the end of its log is that of this run", async () => {
  await using folder = await temporaryFolder();
  const program = path.join(folder.path, "program.mjs");
  writeFileSync(
    program,
    'console.log("first");\nprocess.stdin.resume().on("end", () => console.log("last"));\n',
  );
  process.argv[1] = program;
  const logFile = path.join(folder.path, "log");
  writeFileSync(logFile, "earlier\n");
  truncateSync(logFile, 40 * 1024 * 1024);
  const child = startChild("part", [], logFile);
  await vi.waitFor(() => expect(logTail(child, 1)).toBe("first"));
  expect(statSync(`${logFile}.1`).size).toBe(40 * 1024 * 1024);
  // What the periodic check does to a log that has grown.
  truncateSync(logFile, 0);
  await child.stop(60_000);
  expect(logTail(child, 5)).toBe("last");
});
