import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { until } from "../../test/bed/until.ts";
import {
  isLiving,
  makeFolder,
  mkfifo,
  pidIn,
  processPorts,
  runFolder,
  shell,
  stateLog,
} from "./fixtures/run.ts";
import { createIdentityReader } from "./identity/identity.ts";
import { readRecord, runMark } from "./run-directory.ts";
import type { SupervisedProcess } from "./supervised.ts";
import { createSupervisor } from "./supervisor.ts";

const AGENT = fileURLToPath(new URL("./fixtures/agent.ts", import.meta.url));
const open = () => createSupervisor(processPorts());

/** Starts another agent process; the engine is `sh -c script`. */
function agent(dir: string, lastStep: string, script: string): ChildProcess {
  return spawn(process.execPath, [AGENT, dir, lastStep, "/bin/sh", "-c", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
}

async function engineCount(dir: string): Promise<number> {
  const marked = await createIdentityReader(process.platform).marked(runMark(dir));
  return marked === "unknown" ? Number.NaN : marked.filter(({ pid }) => isSleep(pid)).length;
}

function isSleep(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("sleep");
  } catch {
    return false;
  }
}

describe.runIf(process.platform === "linux")("an agent killed while it starts an engine", () => {
  it.each([
    { step: "directory", engines: 0 },
    { step: "record", engines: 0 },
    { step: "fifos", engines: 0 },
    { step: "spawned", engines: 1 },
  ])(
    "an agent killed right after step $step leaves $engines engines, and the next agent ends with one",
    async ({ step, engines }) => {
      await using folder = runFolder();
      const dir = folder.dir();
      await once(agent(dir, step, "exec sleep 100"), "exit");
      const { start, adopt } = open();
      const states = stateLog();
      let engine: SupervisedProcess | undefined = await adopt(dir, states.onChange);
      expect(engine === undefined ? 0 : 1).toBe(engines);
      engine ??= await start(dir, shell("exec sleep 100"), states.onChange);
      await until(() => expect(engine.state().at).toBe("running"));
      await until(async () => expect(await engineCount(dir)).toBe(1));
      await engine.signal("KILL");
      expect(await states.until("gone")).toEqual({ at: "gone", exit: { signal: "SIGKILL" } });
    },
  );

  it("an agent killed at any moment during a start never leads to two engines", async () => {
    await using folder = runFolder();
    const found: string[] = [];
    for (let round = 0; round < 5; round += 1) {
      const dir = folder.dir(`round-${round}`);
      const child = agent(dir, "", "exec sleep 100");
      await vi.waitFor(() => expect(readRecord(dir)).toBeDefined(), { interval: 1, timeout: 60_000 });
      await new Promise((resolve) => setTimeout(resolve, round * 3));
      child.kill("SIGKILL");
      await once(child, "exit");
      const { start, adopt } = open();
      const adopted = await adopt(dir, () => {});
      found.push(adopted?.state().at ?? "never started");
      const engine = adopted ?? (await start(dir, shell("exec sleep 100"), () => {}));
      await until(() => expect(engine.state().at).toBe("running"));
      await until(async () => expect(await engineCount(dir)).toBe(1));
      await engine.signal("KILL");
      await until(() => expect(engine.state().at).toBe("gone"));
    }
    process.stdout.write(`found by the next agent: ${found.join(", ")}\n`);
  });
});

describe("an adopted engine", () => {
  it("an adopted engine keeps its pid and its log, and the second agent sees it exit", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const first = agent(dir, "", "while :; do echo line; sleep 0.02; done");
    await until(() => expect(pidIn(dir)).toBeGreaterThan(1));
    const pid = pidIn(dir);
    first.kill("SIGKILL");
    await once(first, "exit");
    const states = stateLog();
    const engine = await open().adopt(dir, states.onChange);
    expect(engine?.state()).toMatchObject({ at: "running", pid });
    const length = readFileSync(join(dir, "log")).length;
    await until(() => expect(readFileSync(join(dir, "log")).length).toBeGreaterThan(length));
    expect(readRecord(dir)).toEqual({ by: "fixture" });
    process.kill(pid, "SIGKILL");
    expect(await states.until("ended")).toEqual({ at: "ended", exit: { signal: "SIGKILL" } });
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { signal: "SIGKILL" } });
  });

  it("an adopted engine keeps running when its shim is killed, and its exit status is unknown", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const states = stateLog();
    const engine = await open().start(dir, shell("exec sleep 100"), states.onChange);
    await until(() => expect(engine.state().at).toBe("running"));
    process.kill(Number.parseInt(readFileSync(join(dir, "session"), "utf8"), 10), "SIGKILL");
    const second = await open().adopt(dir, states.onChange);
    expect(second?.state()).toEqual(engine.state());
    expect(await engine.signal("TERM")).toBe("sent");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: "unknown" });
    await until(() => expect(second?.state()).toEqual({ at: "gone", exit: "unknown" }));
  });

  it("an engine that exits while no agent runs is found exited by the next agent", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const engine = await open().start(dir, shell("exec sleep 100"), () => {});
    await until(() => expect(engine.state().at).toBe("running"));
    engine.close();
    process.kill(pidIn(dir), "SIGSEGV");
    await until(() => expect(readFileSync(join(dir, "exit"), "utf8")).toBe("139\n"));
    const adopted = await open().adopt(dir, () => {});
    await until(() => expect(adopted?.state()).toEqual({ at: "gone", exit: { signal: "SIGSEGV" } }));
  });

  it("the periodic check notices the exit of an adopted engine whose FIFOs were deleted", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const engine = await open().start(dir, shell("exec sleep 100"), () => {});
    await until(() => expect(engine.state().at).toBe("running"));
    engine.close();
    rmSync(join(dir, "main"));
    rmSync(join(dir, "alive"));
    const adopted = await createSupervisor(processPorts({ sweepMs: 20 })).adopt(dir, () => {});
    expect(adopted?.state().at).toBe("running");
    process.kill(pidIn(dir), "SIGKILL");
    await until(() => expect(adopted?.state()).toEqual({ at: "gone", exit: { signal: "SIGKILL" } }));
  });
});

describe("a run directory that was left half done", () => {
  const cases: { name: string; make: (dir: string) => void; is: string }[] = [
    { name: "is missing", make: () => {}, is: "never started" },
    { name: "is empty", make: (dir) => makeFolder(dir), is: "never started" },
    { name: "has only engine.json", make: (dir) => write(dir, { "engine.json": "{}" }), is: "never started" },
    {
      name: "has half an engine.json",
      make: (dir) => write(dir, { "engine.json": '{"a"' }),
      is: "never started",
    },
    {
      name: "has FIFOs without a process that holds them",
      make: (dir) => {
        write(dir, { "engine.json": "{}" });
        mkfifo(join(dir, "main"), join(dir, "alive"));
      },
      is: "never started",
    },
    { name: "has half a session line", make: (dir) => write(dir, { session: "123" }), is: "never started" },
    {
      name: "has a dead session and no pid",
      make: (dir) => write(dir, { session: "999999 b:1\n" }),
      is: "gone unknown",
    },
    {
      name: "has a dead pid and no exit",
      make: (dir) => write(dir, { session: "999998 b:1\n", pid: "999999 b:1\n" }),
      is: "gone unknown",
    },
    {
      name: "has garbage for an exit",
      make: (dir) => write(dir, { session: "999998 b:1\n", pid: "999999 b:1\n", exit: "wat\n" }),
      is: "gone unknown",
    },
    { name: "has a pid of 1", make: (dir) => write(dir, { pid: "1 b:1\n" }), is: "never started" },
    {
      name: "has all of it",
      make: (dir) => write(dir, { session: "999998 b:1\n", pid: "999999 b:1\n", exit: "1\n" }),
      is: 'gone {"code":1}',
    },
  ];
  it.each(cases)("a run directory that $name is $is", async ({ make, is }) => {
    await using folder = runFolder();
    const dir = folder.dir();
    make(dir);
    const engine = await open().adopt(dir, () => {});
    const state = engine?.state();
    if (state?.at === "gone")
      expect(`gone ${typeof state.exit === "string" ? state.exit : JSON.stringify(state.exit)}`).toBe(is);
    else expect(state?.at ?? "never started").toBe(is);
  });
});

describe("a run directory that cannot be read", () => {
  it.each(["pid", "session", "exit", "main"])(
    "a run directory whose %s cannot be read is an error, not an engine that never started",
    async (name) => {
      await using folder = runFolder();
      const dir = makeFolder(folder.dir());
      symlinkSync(name, join(dir, name));
      const { start, adopt } = open();
      await expect(adopt(dir, () => {})).rejects.toMatchObject({ code: "ELOOP" });
      await expect(start(dir, shell("true"), () => {})).rejects.toMatchObject({ code: "ELOOP" });
    },
  );
});

describe.runIf(process.platform === "linux" && process.getuid?.() === 0)(
  "a run directory of another user",
  () => {
    const OTHER_UID = 65_534;

    /** Output of the fixture when it runs as that user. */
    function openAs(uid: number, dir: string): string {
      const options = { uid, gid: uid, encoding: "utf8" as const };
      const ran = spawnSync(process.execPath, [AGENT, dir, "", "/bin/sleep", "100"], options);
      return `${ran.status} ${ran.stderr}`;
    }

    it("a run directory of another user is an error: no second engine starts in it, and its engine keeps running", async () => {
      await using folder = runFolder();
      chmodSync(folder.root, 0o755);
      const dir = folder.dir();
      const engine = await open().start(dir, shell("exec sleep 100"), () => {});
      await until(() => expect(engine.state().at).toBe("running"));
      chmodSync(dir, 0o700);
      expect(openAs(OTHER_UID, dir)).toMatch(/^1 [\s\S]*EACCES/);
      expect(isLiving(pidIn(dir))).toBe(true);
      // A readable run directory is an error too, because its FIFOs cannot be opened.
      chmodSync(dir, 0o755);
      expect(openAs(OTHER_UID, dir)).toMatch(/^1 [\s\S]*EACCES/);
      expect(isLiving(pidIn(dir))).toBe(true);
      engine.close();
    });
  },
);

describe("many engines", () => {
  it("twenty engines are adopted by the next agent, which sees each of them exit", async () => {
    await using folder = runFolder();
    const dirs = Array.from({ length: 20 }, (_, index) => folder.dir(`engine-${index}`));
    const first = open();
    const engines = await Promise.all(dirs.map((dir) => first.start(dir, shell("exec sleep 100"), () => {})));
    await until(() => expect(engines.every((engine) => engine.state().at === "running")).toBe(true));
    for (const engine of engines) engine.close();
    const second = open();
    const logs = dirs.map(() => stateLog());
    const adopted = await Promise.all(
      dirs.map((dir, index) => second.adopt(dir, logs[index]?.onChange ?? (() => {}))),
    );
    expect(adopted.every((engine) => engine?.state().at === "running")).toBe(true);
    const pids = dirs.map(pidIn);
    for (const engine of adopted) engine?.signal("KILL");
    await Promise.all(logs.map((log) => log.until("gone")));
    expect(pids.some(isLiving)).toBe(false);
  });
});

function write(dir: string, files: Record<string, string>): void {
  makeFolder(dir);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(dir, name), content);
}
