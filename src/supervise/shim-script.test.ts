import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { until } from "../../test/bed/until.ts";
import { createDarwinIdentity } from "../macos/process-identity.ts";
import { makeFifos, openBothEnds } from "./fifo.ts";
import { makeFolder, runFolder } from "./fixtures/run.ts";
import { createLinuxIdentity } from "./identity/linux.ts";
import { readRunFiles, runMark, runMarkOf } from "./run-directory.ts";
import { SHIM_SCRIPT } from "./shim-script.ts";

const SHELLS = [["/bin/sh"], ["/bin/dash"], ["/bin/bash", "--posix"], ["/bin/busybox", "sh"], ["/bin/zsh"]];
const shells = SHELLS.filter(([path]) => existsSync(path ?? ""));

/** The shim alone, as start.ts calls it. */
async function keep(dir: string, shell: readonly string[], script: string, engine: readonly string[]) {
  makeFolder(dir);
  writeFileSync(join(dir, "shim"), script);
  await makeFifos([join(dir, "main"), join(dir, "alive")]);
  const main = openBothEnds(join(dir, "main"));
  const alive = openBothEnds(join(dir, "alive"));
  const log = openSync(join(dir, "log"), "a");
  const none = "ignore";
  const [program = "", ...args] = shell;
  const shim = spawn(program, [...args, join(dir, "shim"), dir, ...engine], {
    detached: true,
    env: { PATH: "/usr/bin:/bin", METALBRIDGE_RUN_DIR: runMarkOf(dir) },
    stdio: [none, log, log, none, none, none, none, none, main.writer, alive.writer],
  });
  for (const fd of [main.writer, alive.writer, main.reader, alive.reader, log]) closeSync(fd);
  return { shim, ended: once(shim, "exit") };
}

describe.each(shells)("the shim under %s", (...shell) => {
  it("writes session, pid and exit, even when no process reads its FIFOs", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const { shim, ended } = await keep(dir, shell, SHIM_SCRIPT, ["/bin/sleep", "100"]);
    await until(() => expect(readRunFiles(dir).main).toBeDefined());
    const { session, main } = readRunFiles(dir);
    expect(session?.pid).toBe(shim.pid);
    const identity = process.platform === "linux" ? createLinuxIdentity() : createDarwinIdentity();
    expect(identity.startTimeNow(main?.pid ?? 0)).toBe(main?.startTime);
    expect(identity.startTimeNow(session?.pid ?? 0)).toBe(session?.startTime);
    for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) shim.kill(signal);
    process.kill(main?.pid ?? 0, "SIGKILL");
    await ended;
    expect(readRunFiles(dir).exit).toEqual({ signal: "SIGKILL" });
  });

  it("ends an engine whose pid it cannot write down", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    makeFolder(join(dir, "pid.tmp"));
    const { ended } = await keep(dir, shell, SHIM_SCRIPT, ["/bin/sleep", "100"]);
    await ended;
    expect(readRunFiles(dir)).toMatchObject({ exit: { signal: "SIGKILL" } });
  });

  it("starts nothing when it cannot write down its session", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    makeFolder(join(dir, "session"));
    const { ended } = await keep(dir, shell, SHIM_SCRIPT, ["/usr/bin/touch", join(dir, "started")]);
    await ended;
    expect(existsSync(join(dir, "started"))).toBe(false);
  });

  it("leaves the engine's signals as they are", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const { ended } = await keep(dir, shell, SHIM_SCRIPT, ["/bin/sleep", "100"]);
    await until(() => expect(readRunFiles(dir).main).toBeDefined());
    process.kill(readRunFiles(dir).main?.pid ?? 0, "SIGTERM");
    await ended;
    expect(readRunFiles(dir).exit).toEqual({ signal: "SIGTERM" });
  });

  it("takes start times from ps where there is no /proc, as macOS has it", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const script = SHIM_SCRIPT.replaceAll("/proc/", "/no-proc/");
    const { ended } = await keep(dir, shell, script, ["/bin/sleep", "100"]);
    await until(() => expect(readRunFiles(dir).main).toBeDefined());
    const { session, main } = readRunFiles(dir);
    const identity = createDarwinIdentity();
    const pid = main?.pid ?? 0;
    expect(main?.startTime).toMatch(/^[A-Z][a-z]{2} [A-Z][a-z]{2} \d+ [\d:]{8} \d{4}$/);
    expect(identity.startTimeNow(pid)).toBe(main?.startTime);
    const group = session?.pid ?? 0;
    expect(await identity.observe([pid, group, 999_999])).toEqual(
      new Map([
        [pid, { pid, group, startTime: main?.startTime }],
        [group, { pid: group, group, startTime: session?.startTime }],
      ]),
    );
    await until(async () => expect(await identity.members(group)).toHaveLength(2));
    process.kill(pid, "SIGKILL");
    await ended;
    expect(identity.startTimeNow(pid)).toBeUndefined();
    expect(await identity.observe([pid])).toEqual(new Map());
  });
});

describe("the mark", () => {
  it("finds what was started with it", async () => {
    if (process.platform !== "linux") return;
    await using folder = runFolder();
    const dir = folder.dir();
    await keep(dir, ["/bin/sh"], SHIM_SCRIPT, ["/bin/sleep", "100"]);
    await until(() => expect(readRunFiles(dir).main).toBeDefined());
    // The `mv` that has just published the pid carries the mark too, until it has exited.
    await until(async () => {
      const found = await createLinuxIdentity().marked(runMark(dir));
      expect(found === "unknown" ? [] : found.map((one) => one.pid)).toEqual([
        readRunFiles(dir).session?.pid,
        readRunFiles(dir).main?.pid,
      ]);
    });
    expect(readFileSync(join(dir, "log"), "utf8")).toBe("");
  });
});
