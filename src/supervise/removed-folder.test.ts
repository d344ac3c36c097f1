import { closeSync, fstatSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { until } from "../../test/bed/until.ts";
import { isLiving, pidIn, processPorts, runFolder, shell, stateLog } from "./fixtures/run.ts";
import { createSupervisor } from "./supervisor.ts";

const open = () => createSupervisor(processPorts());

describe("a run directory that was removed while its engine ran", () => {
  it("an engine whose run directory was removed is found and killed before another one starts", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const first = await open().start(dir, shell("exec sleep 100"), () => {});
    await until(() => expect(first.state().at).toBe("running"));
    const pid = pidIn(dir);
    first.close();
    rmSync(dir, { recursive: true });
    const { adopt, start } = open();
    const states = stateLog();
    const found = await adopt(dir, states.onChange);
    expect(found?.state()).toEqual({ at: "ended", exit: "unknown" });
    await expect(start(dir, shell("true"), () => {})).rejects.toMatchObject({
      code: "EngineStillRunning",
    });
    expect(isLiving(pid)).toBe(true);
    found?.killGroup();
    expect(await states.until("gone")).toEqual({ at: "gone", exit: "unknown" });
    // The engine is killed, but its new parent may take a moment to reap it.
    await until(() => expect(isLiving(pid)).toBe(false));
  });

  it("a removed run directory is recreated while the agent runs: the next agent knows the engine, its log and its exit", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const { start } = createSupervisor(processPorts({ sweepMs: 20 }));
    const script = "echo before; trap 'echo after; exit 7' USR1; while :; do sleep 0.05; done";
    const engine = await start(dir, shell(script), () => {});
    await until(() => expect(engine.state().at).toBe("running"));
    await until(() => expect(readFileSync(join(dir, "log"), "utf8")).toContain("before"));
    expect(engine.restoreFiles()).toBe(false);
    const pid = pidIn(dir);
    rmSync(dir, { recursive: true });
    expect(engine.restoreFiles()).toBe(true);
    expect(engine.restoreFiles()).toBe(false);
    await until(() => expect(readFileSync(join(dir, "log"), "utf8")).toContain("before"));

    const states = stateLog();
    const next = await open().adopt(dir, states.onChange);
    expect(next?.state()).toMatchObject({ at: "running", pid });
    process.kill(pid, "SIGUSR1");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { code: 7 } });
    await until(() => expect(engine.state()).toEqual({ at: "gone", exit: { code: 7 } }));
    expect(await engine.logTail(1_000)).toMatch(/before\n(?:.*\n)*after\n/);
    next?.close();
  });

  it("a growing log in a removed run directory is truncated if it cannot be copied", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const ports = processPorts({ sweepMs: 20, logLimits: { maxBytes: 1_000, keep: 1 } });
    const script = "while :; do echo 0123456789012345678901234567890123456789; done";
    const engine = await createSupervisor(ports).start(dir, shell(script), () => {});
    await until(() => expect(engine.state().at).toBe("running"));
    const log = openSync(join(dir, "log"), "r");
    try {
      rmSync(dir, { recursive: true });
      let last = fstatSync(log).size;
      let cuts = 0;
      await vi.waitFor(
        () => {
          const { size } = fstatSync(log);
          if (size < last) cuts += 1;
          last = size;
          expect(cuts).toBeGreaterThan(2);
        },
        { timeout: 60_000, interval: 1 },
      );
      expect(engine.state().at).toBe("running");
    } finally {
      closeSync(log);
      engine.killGroup();
      await until(() => expect(engine.state().at).toBe("gone"));
    }
  });

  it("the exit of an engine whose run directory was removed is seen immediately, with unknown status", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const states = stateLog();
    const engine = await open().start(dir, shell("exec sleep 100"), states.onChange);
    await until(() => expect(engine.state().at).toBe("running"));
    const pid = pidIn(dir);
    rmSync(dir, { recursive: true });
    process.kill(pid, "SIGKILL");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: "unknown" });
    expect(states.seen.map(({ state }) => state.at)).not.toContain("starting");
  });
});
