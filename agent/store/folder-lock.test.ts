/** Pods that fetch to one folder run one at a time; the next one takes over if the current one dies. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/kube/system-clock.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { withFolderLock } from "./folder-lock.ts";

const signal = new AbortController().signal;

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), "mb-lock-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

const lockOf = (dir: string, more: object = {}) => ({
  dir,
  clock: systemClock,
  log: quietLog,
  signal,
  renewMs: 25,
  ...more,
});

test("withFolderLock runs one caller at a time and leaves no file behind", async () => {
  const dir = folder();
  let inside = 0;
  let most = 0;
  const runs = Array.from({ length: 5 }, () =>
    withFolderLock(lockOf(dir), async () => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise((resolve) => setTimeout(resolve, 30));
      inside -= 1;
    }),
  );
  await Promise.all(runs);
  expect(most).toBe(1);
  expect(readdirSync(dir)).toEqual([]);
});

test("a process takes over the lock of a killed process after several missed renewals", async () => {
  const dir = folder();
  writeFileSync(join(dir, "lock"), "a-process-that-is-gone 7");
  const warnings: string[] = [];
  const log = { ...quietLog, warn: (_: object, message: string) => warnings.push(message) };
  expect(await withFolderLock(lockOf(dir, { log }), async () => "fetched")).toBe("fetched");
  expect(warnings).toEqual(["the holder of the folder's lock no longer renews it; taking over"]);
  expect(readdirSync(dir)).toEqual([]);
});

test("a holder that has lost the lock stops, and does not remove the lock of the other process", async () => {
  const dir = folder();
  const lost = withFolderLock(lockOf(dir), async (held) => {
    writeFileSync(join(dir, "lock"), "another-process 1");
    await new Promise((resolve) => held.addEventListener("abort", resolve));
    held.throwIfAborted();
  });
  await expect(lost).rejects.toMatchObject({ code: "SourceStalled" });
  expect(readdirSync(dir)).toEqual(["lock"]);
});

test("a process stops waiting for the lock when its signal is aborted", async () => {
  const dir = folder();
  const stop = new AbortController();
  await withFolderLock(lockOf(dir, { renewMs: 60_000 }), async () => {
    const waits = withFolderLock(lockOf(dir, { signal: stop.signal }), async () => undefined);
    stop.abort(new Error("stopped"));
    await expect(waits).rejects.toThrow("stopped");
  });
});
