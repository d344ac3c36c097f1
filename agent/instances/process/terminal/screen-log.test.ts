import { expect, test } from "vitest";
import { ScreenLog } from "./screen-log.ts";

/** The log of output that arrives in these pieces. `flushed`: there is a pause after each piece. */
function logged(pieces: readonly string[], flushed = false): string {
  let all = "";
  const log = new ScreenLog((text) => {
    all += text;
  });
  for (const piece of pieces) {
    log.add(piece);
    if (flushed) log.flush();
  }
  log.flush();
  return all;
}

const ESC = "\u001b";

test.each<[string, string, string]>([
  ["lines", "one\r\ntwo\r\n", "one\ntwo\n"],
  ["a line without an end", "prompt> ", "prompt> "],
  ["colors and cursor movements", `${ESC}[1;31mred${ESC}[0m${ESC}[2Kx\r\n`, "redx\n"],
  [
    "titles and links",
    `${ESC}]0;title\u0007a${ESC}]8;;http://b${ESC}\\b${ESC}]8;;${ESC}\\${ESC}[?25h\r\n`,
    "ab\n",
  ],
  ["device strings", `${ESC}P1;2q###${ESC}\\a\r\n`, "a\n"],
  ["a bar that is redrawn", "10 %\r50 %\r100 %\r\ndone\r\n", "100 %\ndone\n"],
  ["a typing error", "cax\b \bt\r\n", "cat\n"],
  ["bells and NULs", "a\u0007\0\0b\r\n", "ab\n"],
  ["a tab, and other scripts", "a\tä日\r\n", "a\tä日\n"],
])("the log contains %s as readable lines, no matter how the output is split", (_, output, lines) => {
  expect(logged([output])).toBe(lines);
  expect(logged([...output])).toBe(lines);
});

test("an unfinished line that was logged continues in place, or on a new line if it is redrawn", () => {
  expect(logged(["name? ", "Ada\r\n"], true)).toBe("name? Ada\n");
  expect(logged(["10 %", "\r50 %", "\r100 %\r\n"], true)).toBe("10 %\n50 %\n100 %\n");
});

test("an unterminated line or escape sequence is buffered only up to a limit", () => {
  expect(logged(["x".repeat(100_000), "y\r\n"])).toHaveLength(100_002);
  expect(logged([`${ESC}]0;${"x".repeat(100_000)}`, "\u0007end\r\n"])).toContain("end\n");
});
