import { expect, it } from "vitest";
import { systemError } from "../src/util/atomic-file.ts";
import type { Log } from "../src/util/ports.ts";
import { createFolderWait } from "./folder-wait.ts";
import { manualClock } from "./testing/manual-clock.ts";

const settled = () => new Promise((resolve) => setImmediate(resolve));

function setUp() {
  const clock = manualClock();
  const stop = new AbortController();
  const logged: object[] = [];
  const line = (data: object, message: string) => logged.push({ ...data, message });
  const log: Log = { debug: line, info: line, warn: line, error: line, child: () => log };
  const { signal } = new AbortController();
  const wait = createFolderWait({ folder: "/gateway", clock, log, signal, stopping: stop.signal });
  return { clock, stop, logged, wait };
}

it.for(["ENOSPC", "EDQUOT"])(
  "repeats work after %s with bounded pauses, and warns once what to do",
  async (code) => {
    const { clock, logged, wait } = setUp();
    const signals: AbortSignal[] = [];
    let isFull = true;
    const done = wait.until(async (signal) => {
      signals.push(signal);
      if (isFull) throw systemError(code, "no space left on device");
      return "written";
    });
    for (let minute = 0; minute < 60; minute += 1) {
      await settled();
      clock.advance(5_000);
    }
    await settled();
    expect(signals.length).toBeGreaterThanOrEqual(60);
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    expect(wait.waitsFor()).toBe("space in /gateway");
    isFull = false;
    clock.advance(5_000);
    expect(await done).toBe("written");
    expect(wait.waitsFor()).toBeUndefined();
    expect(signals.at(-1)?.aborted).toBe(false);
    expect(logged).toMatchObject([
      {
        code: "StateDiskFull",
        message:
          "the gateway waits for space in /gateway: its disk is full; free space on that disk; the gateway retries automatically",
      },
      { message: "the folder of the gateway is writable again" },
    ]);
  },
);

it.for(["EIO", "EROFS"])(
  "waits for a disk that fails with %s, and ends the wait when the gateway stops",
  async (code) => {
    const { stop, logged, wait } = setUp();
    const done = wait.until(async () => {
      throw systemError(code, "failed");
    });
    await settled();
    expect(wait.waitsFor()).toBe("a writable disk: /gateway");
    expect(logged).toMatchObject([{ code: "StateFolderUnusable" }]);
    stop.abort();
    expect(await done).toBeUndefined();
  },
);

it("does not wait where another folder is needed, or after another error", async () => {
  const { wait } = setUp();
  const failing = (error: unknown) => () => Promise.reject(error);
  await expect(wait.until(failing(systemError("EACCES", "permission denied")))).rejects.toMatchObject({
    code: "StateFolderUnusable",
    remedy: { summary: "choose a folder that this user can write, with --dir, or --state-dir of the agent" },
  });
  const bug = new Error("bug");
  await expect(wait.until(failing(bug))).rejects.toBe(bug);
  expect(wait.waitsFor()).toBeUndefined();
});
