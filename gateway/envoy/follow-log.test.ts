import { once } from "node:events";
import { watch } from "node:fs";
import { appendFile, mkdtemp, rename, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Clock } from "../../src/util/ports.ts";
import { until } from "../../test/bed/until.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { manualClock } from "../testing/manual-clock.ts";
import { followFile, type LogPosition } from "./follow-log.ts";

async function openLog(clock: Clock = systemClock) {
  const stack = new AsyncDisposableStack();
  const dir = await mkdtemp(path.join(tmpdir(), "mb-follow-"));
  stack.defer(() => rm(dir, { recursive: true, force: true }));
  const file = path.join(dir, "access.log");
  const lines: string[] = [];
  let position: LogPosition | undefined;
  const start = async () => {
    const ending = new AbortController();
    stack.defer(() => ending.abort());
    const followed = await followFile({
      file,
      from: position,
      onLines: (more, after) => {
        lines.push(...more);
        position = after;
      },
      clock,
      log: quietLog,
      signal: ending.signal,
    });
    return { ...followed, end: () => ending.abort() };
  };
  return { file, lines, start, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test("reading starts at the end, and a line counts once it is whole", async () => {
  await using log = await openLog();
  await writeFile(log.file, "old\n");
  const followed = await log.start();
  await appendFile(log.file, "one\ntw");
  await followed.settle();
  expect(log.lines).toEqual(["one"]);
  await appendFile(log.file, "o\n");
  await followed.settle();
  expect(log.lines).toEqual(["one", "two"]);
});

test("the next process continues after the last whole line", async () => {
  await using log = await openLog();
  await writeFile(log.file, "");
  const first = await log.start();
  await appendFile(log.file, "one\ntw");
  await first.settle();
  first.end();
  await appendFile(log.file, "o\nthree\n");
  await log.start();
  expect(log.lines).toEqual(["one", "two", "three"]);
});

test("a renamed file is read to its end before the new one", async () => {
  await using log = await openLog();
  await writeFile(log.file, "");
  const followed = await log.start();
  await appendFile(log.file, "one\n");
  await rename(log.file, `${log.file}.1`);
  await writeFile(log.file, "two\n");
  await followed.settle();
  expect(log.lines).toEqual(["one", "two"]);
});

test("a file that appears later is read from its beginning", async () => {
  await using log = await openLog();
  const followed = await log.start();
  await writeFile(log.file, "one\n");
  await followed.settle();
  expect(log.lines).toEqual(["one"]);
});

test("a truncated file is read from its beginning", async () => {
  await using log = await openLog();
  await writeFile(log.file, "");
  const followed = await log.start();
  await appendFile(log.file, "one\ntwo\npart");
  await followed.settle();
  await truncate(log.file, 0);
  await followed.settle();
  await appendFile(log.file, "three\n");
  await followed.settle();
  expect(log.lines).toEqual(["one", "two", "three"]);
});

test("a process that was killed while its file was renamed misses no line", async () => {
  await using log = await openLog();
  await writeFile(log.file, "");
  const first = await log.start();
  await appendFile(log.file, "one\n");
  await first.settle();
  first.end();
  await appendFile(log.file, "two\n");
  await rename(log.file, `${log.file}.1`);
  await writeFile(log.file, "three\n");
  await log.start();
  expect(log.lines).toEqual(["one", "two", "three"]);
});

test("a change is read at once, and further ones together after a pause", async () => {
  const clock = manualClock();
  await using log = await openLog(clock);
  await writeFile(log.file, "");
  const followed = await log.start();
  await appendFile(log.file, "one\n");
  await until(() => expect(log.lines).toEqual(["one"]), { everyMs: 1 });
  const watcher = watch(log.file);
  const changed = once(watcher, "change");
  await appendFile(log.file, "two\n");
  await changed;
  watcher.close();
  expect(log.lines).toEqual(["one"]);
  clock.advance(50);
  await until(() => expect(log.lines).toEqual(["one", "two"]), { everyMs: 1 });
  followed.end();
});
