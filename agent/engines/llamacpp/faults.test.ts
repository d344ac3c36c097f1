import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { processPorts, runFolder, stateLog } from "../../../src/supervise/fixtures/run.ts";
import { createSupervisor } from "../../../src/supervise/supervisor.ts";
import { until } from "../../../test/bed/until.ts";
import { type EngineFault, writeFaultyEngine } from "../../../test/fixtures/faulty-engines.ts";
import { healthy, prepareTiny, program } from "../../../test/fixtures/started-llama-server.ts";
import type { PreparedEngine } from "./driver.ts";

/** The same command line for an engine that has the fault. */
function faulty(prepared: PreparedEngine, root: string, fault: EngineFault) {
  const path = writeFaultyEngine(join(root, fault), fault, program ?? "");
  return { argv: [path, ...prepared.argv.slice(1)], env: prepared.env, record: {} };
}

describe.skipIf(program === undefined)("an engine that", () => {
  it("an engine that never becomes ready answers no probe, and exits on SIGTERM", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const { driver, dir, prepared, target } = await prepareTiny(folder);
    const command = faulty(prepared, folder.root, "never-ready");
    const engine = await createSupervisor(processPorts()).start(dir, command, states.onChange);
    await until(() => expect(engine.state().at).toBe("running"));
    expect(await driver.probeHealth(target)).toEqual({ unhealthy: "nothing is listening on the port" });
    await engine.signal("TERM");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { signal: "SIGTERM" } });
  });

  it("an engine that ignores SIGTERM is killed with SIGKILL, and its remaining processes with killGroup", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const { driver, dir, prepared, target } = await prepareTiny(folder);
    const command = faulty(prepared, folder.root, "ignores-sigterm");
    const engine = await createSupervisor(processPorts()).start(dir, command, states.onChange);
    await healthy(driver, target);
    await engine.signal("TERM");
    await engine.signal("TERM");
    expect(await driver.probeRequest(target)).toBe("ok");
    await engine.signal("KILL");
    expect(await states.until("ended")).toEqual({ at: "ended", exit: { signal: "SIGKILL" } });
    expect(await driver.probeHealth(target)).toBe("healthy");
    engine.killGroup();
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { signal: "SIGKILL" } });
    // The kernel lets go of an ended process's files one after the other, its socket not always before its FIFO.
    await until(async () =>
      expect(await driver.probeHealth(target)).toEqual({ unhealthy: "nothing is listening on the port" }),
    );
  });

  it.each([
    ["crashes-at-once", "SIGABRT"],
    ["crashes-after-ready", "SIGSEGV"],
  ] as const)("%s is named as crashed by %s", async (fault, signal) => {
    await using folder = runFolder();
    const { driver, dir, prepared } = await prepareTiny(folder);
    const command = faulty(prepared, folder.root, fault);
    const engine = await createSupervisor(processPorts()).start(dir, command, () => {});
    await until(() => expect(engine.state()).toMatchObject({ exit: { signal } }));
    const reason = driver.classifyExit({ signal }, await engine.logTail(4096));
    expect(reason).toEqual({ code: "EngineCrashed", message: expect.stringContaining(signal) });
    engine.killGroup();
    await until(() => expect(engine.state().at).toBe("gone"));
  });

  it("an engine that leaves a child behind is ended, and gone only after the child has exited", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const { driver, dir, prepared, target } = await prepareTiny(folder);
    const command = faulty(prepared, folder.root, "leaves-a-child");
    const engine = await createSupervisor(processPorts()).start(dir, command, states.onChange);
    await healthy(driver, target);
    await engine.signal("KILL");
    await states.until("ended");
    engine.close();
    const next = stateLog();
    const adopted = await createSupervisor(processPorts()).adopt(dir, next.onChange);
    expect(adopted?.state()).toEqual({ at: "ended", exit: { signal: "SIGKILL" } });
    adopted?.killGroup();
    expect(await next.until("gone")).toEqual({ at: "gone", exit: { signal: "SIGKILL" } });
  });
});
