import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test, vi } from "vitest";
import type { Log } from "../../../src/util/ports.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { truncateIfLarge } from "../../log-size.ts";
import type { Component } from "../components/component.ts";
import { tailOf } from "./log-tail.ts";
import { supervise } from "./supervise.ts";
import { startWatched } from "./watched-child.ts";

function component(dir: string, script: string, graceMs = 500): Component {
  const logFile = path.join(dir, "log");
  return {
    name: "part",
    program: "/bin/sh",
    args: ["-c", script],
    env: {},
    cwd: dir,
    logFile,
    graceMs,
    orphanGraceMs: 300,
  };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const WAIT = { timeout: 60_000, interval: 20 };

async function pidIn(file: string): Promise<number> {
  return await vi.waitFor(async () => {
    const pid = Number(await readFile(file, "utf8"));
    expect(pid).toBeGreaterThan(1);
    return pid;
  }, WAIT);
}

const ignoresTerm = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";

test("the exit status is the program's own, and its output is in the log", async () => {
  await using folder = await temporaryFolder();
  const ended = await startWatched(component(folder.path, "echo to the log; exit 7")).ended;
  expect(ended.code).toBe(7);
  expect(tailOf(path.join(folder.path, "log"), 100)).toBe("to the log\n");
});

test("a program that does not exist is a program that ended", async () => {
  await using folder = await temporaryFolder();
  const missing = { ...component(folder.path, ""), program: "/no/such/program" };
  expect((await startWatched(missing).ended).code).toBe(127);
});

test("stop asks first, and kills what does not listen", async () => {
  await using folder = await temporaryFolder();
  const polite = startWatched(
    component(folder.path, "trap 'exit 3' TERM; echo $$ > pid; while :; do sleep 0.05; done", 10_000),
  );
  await pidIn(path.join(folder.path, "pid"));
  expect((await polite.stop()).code).toBe(3);

  await writeFile(path.join(folder.path, "pid"), "");
  const stubborn = startWatched(component(folder.path, ignoresTerm));
  const pid = await pidIn(path.join(folder.path, "pid"));
  expect((await stubborn.stop()).code).toBe(137);
  expect(isAlive(pid)).toBe(false);
});

test("a parent that is killed takes its programs with it, even one that ignores TERM", async () => {
  await using folder = await temporaryFolder();
  const module = pathToFileURL(path.join(import.meta.dirname, "watched-child.ts")).href;
  const input = JSON.stringify(component(folder.path, ignoresTerm));
  const script = `import { startWatched } from ${JSON.stringify(module)}; startWatched(${input}); setInterval(() => {}, 1e6);`;
  const parent = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
  const pid = await pidIn(path.join(folder.path, "pid"));
  parent.kill("SIGKILL");
  await once(parent, "exit");
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 60_000, interval: 50 });
});

test("a watchdog that is killed does not leave its program behind", async () => {
  await using folder = await temporaryFolder();
  const child = startWatched(component(folder.path, `echo $PPID > parent; ${ignoresTerm}`));
  const pid = await pidIn(path.join(folder.path, "pid"));
  process.kill(await pidIn(path.join(folder.path, "parent")), "SIGKILL");
  expect((await child.ended).signal).toBe("SIGKILL");
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 60_000, interval: 50 });
});

test("a crash is reported and answered with a restart, until it is stopped", async () => {
  await using folder = await temporaryFolder();
  const warnings: object[] = [];
  const drop = () => {};
  const log: Log = {
    debug: drop,
    info: drop,
    error: drop,
    child: () => log,
    warn: (data) => warnings.push(data),
  };
  const part = supervise(component(folder.path, "echo run >> runs; exit 9"), log);
  await vi.waitFor(
    async () =>
      expect((await readFile(path.join(folder.path, "runs"), "utf8")).length).toBeGreaterThanOrEqual(8),
    WAIT,
  );
  await vi.waitFor(() => expect(part.crashes()).toBeGreaterThanOrEqual(2), WAIT); // now in its pause
  await part.stop();
  expect(warnings[0]).toMatchObject({ part: "part", code: 9 });
  expect(part.lastEnd()?.code).toBe(9);
  const runs = await readFile(path.join(folder.path, "runs"), "utf8");
  // The last run may have been stopped, which is no crash.
  expect(runs.split("\n").length - 1 - part.crashes()).toBeOneOf([0, 1]);
});

test("a part that cannot start because its log cannot be opened is retried until it is stopped", async () => {
  await using folder = await temporaryFolder();
  const drop = () => {};
  const log: Log = { debug: drop, info: drop, error: drop, warn: drop, child: () => log };
  const missing = path.join(folder.path, "later");
  const part = supervise(
    { ...component(folder.path, "echo run >> runs; sleep 100"), logFile: path.join(missing, "log") },
    log,
  );
  await vi.waitFor(() => expect(part.crashes()).toBeGreaterThan(0), WAIT);
  await mkdir(missing);
  await vi.waitFor(
    async () => expect(await readFile(path.join(folder.path, "runs"), "utf8")).toBe("run\n"),
    WAIT,
  );
  await part.stop();
});

test("a log that grew too large is cut while the program keeps writing to it", async () => {
  await using folder = await temporaryFolder();
  const part = startWatched(
    component(folder.path, "trap 'exit 0' TERM; while :; do echo line; sleep 0.01; done"),
  );
  const log = path.join(folder.path, "log");
  await vi.waitFor(() => expect(truncateIfLarge(log, 40)).toBe(true), { timeout: 60_000, interval: 10 });
  expect((await readFile(`${log}.1`, "utf8")).startsWith("line\n")).toBe(true);
  await vi.waitFor(async () => expect(await readFile(log, "utf8")).toMatch(/^(line\n)+$/), WAIT);
  await part.stop();
});
