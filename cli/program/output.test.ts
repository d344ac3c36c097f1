import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../local/package-root.ts";

/** Who writes to the terminal without `writeOut` or `writeErr`, and why. */
const RAW = {
  "cli/program/output.ts": "the one place",
  "cli/models.ts": "a line that is written over, of numbers",
  "cli/doctor/reach.ts": "a script for another process",
  "cli/top.ts": "a screen of its own, whose lines it cleans",
  "cli/logs/print.ts": "bytes of a log as they are, like kubectl logs",
  "cli/attach.ts": "the terminal of the program that it is attached to",
  "cli/chat.ts": "readline, which needs the stream",
  "cli/program/confirm.ts": "readline, with a question that is cleaned",
  "cli/main.ts": "listens for a closed reader",
  "cli/deploy/follow.ts": "passes the stream to local/download-bar.ts, which writes numbers only",
  "cli/demo.ts": "passes the stream to local/demo/screen.ts, which cleans",
} as const;

test("every verb prints through one writer", () => {
  const root = packageRoot();
  const files = globSync("cli/**/*.ts", { cwd: root }).filter((file) => !file.endsWith(".test.ts"));
  const direct = files.filter((file) =>
    /process\.std(out|err)(\.write\(|\b(?!\.(isTTY|columns|rows|once|on)\b))/.test(
      readFileSync(path.join(root, file), "utf8"),
    ),
  );
  expect(direct.sort().filter((file) => !(file in RAW))).toEqual([]);
});
