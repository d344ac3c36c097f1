import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { keepAwake } from "./keep-awake.ts";

async function setup(script: string | undefined) {
  const folder = await mkdtemp(join(tmpdir(), "mb-awake-"));
  const end = new AbortController();
  onTestFinished(async () => {
    end.abort();
    await rm(folder, { recursive: true });
  });
  if (script !== undefined) {
    await writeFile(join(folder, "caffeinate"), `#!/bin/sh\n${script}\n`);
    await chmod(join(folder, "caffeinate"), 0o755);
  }
  const state = { engines: false };
  const lines: LogLine[] = [];
  const clock = createSteppedClock();
  keepAwake({
    path: `${folder}:/usr/bin:/bin`,
    clock,
    log: keepLines(lines),
    signal: end.signal,
    hasEngines: () => state.engines,
  });
  const runs = async () =>
    (await readFile(join(folder, "runs"), "utf8").catch(() => "")).split("\n").filter((line) => line !== "");
  return { state, lines, clock, runs, end };
}

/** Records its arguments and its exit, and runs until SIGTERM. */
const CAFFEINATE = [
  'runs="$(dirname "$0")/runs"',
  'echo "start $*" >> "$runs"',
  "trap 'echo end >> \"$runs\"; kill $!; exit 0' TERM",
  "sleep 600 &",
  "wait",
].join("\n");

test("the machine is kept awake while engines run, and may sleep when the last has exited", async () => {
  const { state, clock, runs, end } = await setup(CAFFEINATE);
  const held = `start -i -w ${process.pid}`;
  clock.advance(5_000);
  expect(await runs()).toEqual([]);
  state.engines = true;
  clock.advance(5_000);
  await until(async () => expect(await runs()).toEqual([held]));
  clock.advance(5_000);
  state.engines = false;
  clock.advance(5_000);
  await until(async () => expect(await runs()).toEqual([held, "end"]));
  state.engines = true;
  clock.advance(5_000);
  await until(async () => expect(await runs()).toEqual([held, "end", held]));
  end.abort();
  await until(async () => expect(await runs()).toEqual([held, "end", held, "end"]));
});

test("a power assertion is held again after its process was killed", async () => {
  const { state, clock, runs } = await setup('echo start >> "$(dirname "$0")/runs"');
  state.engines = true;
  clock.advance(5_000);
  await until(async () => expect(await runs()).toEqual(["start"]));
  await until(async () => {
    clock.advance(5_000);
    expect((await runs()).length).toBeGreaterThan(1);
  });
});

test("a machine without caffeinate is a warning, once", async () => {
  const { state, lines, clock } = await setup(undefined);
  state.engines = true;
  clock.advance(5_000);
  const warnings = () => lines.filter(({ message }) => message.includes("cannot keep this machine awake"));
  await until(() => expect(warnings()).toHaveLength(1));
  for (let beat = 0; beat < 3; beat += 1) {
    clock.advance(5_000);
    await new Promise(setImmediate);
  }
  expect(warnings()).toHaveLength(1);
});
