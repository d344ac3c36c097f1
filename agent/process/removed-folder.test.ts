import { rmSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { isLiving, pidIn, processPorts, runFolder, shell, stateLog } from "./fixtures/run.ts";
import { createEngineProcesses } from "./processes.ts";

const open = () => createEngineProcesses(processPorts());

describe("a run directory that was removed while its engine ran", () => {
  it("still has the engine, which is ended before another is started", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const first = await open().startEngine(dir, shell("exec sleep 100"), () => {});
    await vi.waitFor(() => expect(first.state().at).toBe("running"));
    const pid = pidIn(dir);
    first.close();
    rmSync(dir, { recursive: true });
    const { adoptEngine, startEngine } = open();
    const states = stateLog();
    const found = await adoptEngine(dir, states.onChange);
    expect(found?.state()).toEqual({ at: "ended", exit: "unknown" });
    await expect(startEngine(dir, shell("true"), () => {})).rejects.toMatchObject({
      code: "EngineStillRunning",
    });
    expect(isLiving(pid)).toBe(true);
    found?.killGroup();
    expect(await states.until("gone")).toEqual({ at: "gone", exit: "unknown" });
    // Killed it is; whoever inherited it may take a moment to bury it.
    await vi.waitFor(() => expect(isLiving(pid)).toBe(false));
  });
});
