import { expect, test } from "vitest";
import { START_LINE } from "../../../src/engines/contract/last-run.ts";
import { exitNote } from "./exit-note.ts";

test("the note of an exit has its exit code or signal and the last lines of that run's log", () => {
  const logTail = `of an earlier run\n${START_LINE} 2026\none\n\ntwo\n\u001b[0mthree\n\0four\n`;
  expect(exitNote("it broke", { code: 1, logTail }).note).toBe(
    "it broke (exit code 1; last log lines: two | [0mthree | four)",
  );
  expect(exitNote("it was killed", { signal: "SIGKILL", logTail: "" }).note).toBe(
    "it was killed (signal SIGKILL; its log is empty)",
  );
  expect(exitNote("it is gone", { logTail: "" }).note).toContain("exit status unknown");
});

test("a note fits into an Event and keeps the last lines, however long message and lines are", () => {
  const logTail = ["first", "ü".repeat(5_000), "the last of them"].join("\n");
  const { note } = exitNote("ö".repeat(3_000), { code: 139, logTail });
  expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1_024);
  expect(note).toMatch(/^ö+… \(exit code 139; last log lines: first \| ü+… \| the last of them\)$/);
});

test("exits that differ only in pids and times are grouped", () => {
  const first = exitNote("it broke: pid 17", { code: 3, logTail: "pid 17 at 12:00:01" });
  const second = exitNote("it broke: pid 18", { code: 3, logTail: "pid 18 at 12:00:02" });
  expect(first.note).not.toBe(second.note);
  expect(first.sameAs).toBe(second.sameAs);
  expect(exitNote("it broke: pid 18", { code: 4, logTail: "" }).sameAs).not.toBe(first.sameAs);
});
