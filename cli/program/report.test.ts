import { CommanderError } from "commander";
import { expect, test } from "vitest";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { failureFields, reportFailure } from "./report.ts";

test("an expected failure has its code, its sentence and what to do", () => {
  const error = new MetalbridgeError("PortTaken", "port 1 is taken", {
    summary: "free it",
    command: "lsof -i :1",
  });
  expect(reportFailure(error)).toEqual({
    text: "PortTaken: port 1 is taken\n  free it\n    lsof -i :1",
    exitCode: 1,
  });
});

test("what the user configured wrongly ends with 2", () => {
  expect(reportFailure(new MetalbridgeError("BadEnvironment", "X must be absolute")).exitCode).toBe(2);
  const parsed = z.strictObject({ port: z.number() }).safeParse({ port: "x" });
  expect(reportFailure(parsed.error)).toMatchObject({ exitCode: 2, text: expect.stringMatching(/^port: /) });
});

test("commander has spoken already", () => {
  expect(reportFailure(new CommanderError(1, "commander.unknownOption", "x"))).toEqual({
    text: "",
    exitCode: 2,
  });
  expect(reportFailure(new CommanderError(0, "commander.helpDisplayed", ""))).toEqual({
    text: "",
    exitCode: 0,
  });
});

test.each([
  [
    "ENOSPC",
    "write",
    /^StateDiskFull: ENOSPC: no space \(\/s\/instance-id\)\n {2}free space on that disk, or .*--state-dir/,
  ],
  ["EDQUOT", "write", /^StateDiskFull: /],
  ["EROFS", "open", /^StateFolderUnusable: /],
  ["ENOSPC", "watch", /^this is a bug/],
  ["EACCES", "open", /^this is a bug/],
])("%s of %s is reported as what it is", (code, syscall, said) => {
  const error = Object.assign(new Error(`${code}: no space`), { code, syscall, path: "/s/instance-id" });
  const { text, exitCode } = reportFailure(error);
  expect(text).toMatch(said);
  expect(exitCode).toBe(text.includes("bug") ? 70 : 1);
  expect(failureFields(error).code).toBe(/^State\w+/.exec(text)?.[0]);
});

test("anything else is a bug, with its stack", () => {
  const report = reportFailure(new TypeError("x is not a function"));
  expect(report.exitCode).toBe(70);
  expect(report.text).toMatch(/bug[\s\S]*TypeError: x is not a function\n\s+at /);
});
