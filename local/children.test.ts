import { statSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { countEnd, keepChild, logTail, NO_ENDS, restartMs, startChild } from "./children.ts";

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

it("a part that is killed is started again each time, and one that exits three times from its first start on is left", async () => {
  await using folder = await temporaryFolder();
  const program = path.join(folder.path, "program.mjs");
  const broken = path.join(folder.path, "broken");
  writeFileSync(
    program,
    `import { existsSync } from "node:fs";
console.log(process.pid);
if (existsSync(${JSON.stringify(broken)})) process.exit(7);
process.stdin.resume();`,
  );
  process.argv[1] = program;
  const logFile = path.join(folder.path, "log");
  const printed: string[] = [];
  const part = keepChild("part", [], logFile, (line) => printed.push(line));
  const pid = () => Number(logTail(part, 1));
  let killed = 0;
  for (let kills = 1; kills <= 4; kills += 1) {
    await vi.waitFor(() => expect([0, Number.NaN, killed]).not.toContain(pid()), 20_000);
    killed = pid();
    if (kills === 4) writeFileSync(broken, "");
    process.kill(killed, "SIGKILL");
  }
  expect(await part.ended).toBe("part ended with exit code 7");
  expect(printed.map((line) => line.split(";")[0])).toEqual([
    ...Array.from({ length: 4 }, () => "part ended with SIGKILL, and is started again"),
    ...Array.from({ length: 2 }, () => "part ended with exit code 7, and is started again"),
    "part ended with exit code 7 for the third time in 5 minutes, and is not started again",
  ]);
});

const S = 1_000;
const MINUTE = 60 * S;
type Run = readonly [startedMs: number, endedMs: number, isKilled?: boolean];
it.each<[string, readonly Run[], boolean]>([
  [
    "exits three times within 5 minutes is left",
    [
      [0, S],
      [S, 2 * S],
      [5 * MINUTE - S, 5 * MINUTE],
    ],
    true,
  ],
  [
    "exits three times, the first one more than 5 minutes ago, is started again",
    [
      [0, S],
      [2 * S, 3 * S],
      [6 * MINUTE, 6 * MINUTE + S],
    ],
    false,
  ],
  [
    "exits three times, after it has run for more than a minute, is started again",
    [
      [0, 61 * S],
      [61 * S, 62 * S],
      [62 * S, 63 * S],
      [63 * S, 64 * S],
    ],
    false,
  ],
  [
    "exits twice, and is killed three times is started again",
    [
      [0, S],
      [S, 2 * S, true],
      [2 * S, 3 * S, true],
      [3 * S, 4 * S, true],
      [4 * S, 5 * S],
    ],
    false,
  ],
])("a part that %s", (_, runs, isLeft) => {
  const ends = runs.reduce(
    (before, [startedMs, endedMs, isKilled = false]) => countEnd(before, { startedMs, endedMs, isKilled }),
    NO_ENDS,
  );
  expect(restartMs(ends) === undefined).toBe(isLeft);
});
