import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { createDarwinIdentity } from "../../macos/process-identity.ts";
import { createIdentityReader } from "./identity.ts";

describe.each([
  ["the system's own reader", createIdentityReader(process.platform)],
  ["ps", createDarwinIdentity()],
])("what a process does, by %s", (_, { activity }) => {
  it("the activity reading distinguishes a sleeping, a stopped and a running process", async () => {
    await using sleeper = child("sleep", ["100"]);
    await vi.waitFor(async () => expect(await activity(sleeper.pid)).toBe("asleep"), 60_000);
    process.kill(sleeper.pid, "SIGSTOP");
    await vi.waitFor(async () => expect(await activity(sleeper.pid)).toBe("stopped"), 60_000);
    await using spinner = child("sh", ["-c", "while :; do :; done"]);
    await vi.waitFor(async () => expect(await activity(spinner.pid)).toBe("busy"), 60_000);
  });

  it("the activity of a process that has exited is unknown", async () => {
    const ended = spawn("true");
    await once(ended, "exit");
    expect(await activity(ended.pid ?? 0)).toBe("unknown");
  });
});

function child(program: string, args: readonly string[]): AsyncDisposable & { readonly pid: number } {
  const started: ChildProcess = spawn(program, args, { stdio: "ignore" });
  return {
    pid: started.pid ?? 0,
    [Symbol.asyncDispose]: async () => {
      started.kill("SIGKILL");
      await once(started, "exit");
    },
  };
}

it("a start time is read from a slow ps without blocking other work", async () => {
  const folder = mkdtempSync(join(tmpdir(), "metalbridge-ps-"));
  const ps = join(folder, "ps");
  writeFileSync(ps, `#!/bin/sh\nsleep 0.3\nexec ps "$@"\n`, { mode: 0o755 });
  const order: string[] = [];
  const asked = createDarwinIdentity(ps)
    .startTime(process.pid)
    .then((startTime) => {
      order.push("answered");
      return startTime;
    });
  setImmediate(() => order.push("other work"));
  expect(await asked).toEqual(createDarwinIdentity().startTimeNow(process.pid));
  expect(order).toEqual(["other work", "answered"]);
  rmSync(folder, { recursive: true });
});
