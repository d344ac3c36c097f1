/** Starts with unusual folders and arguments. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { until } from "../../test/bed/until.ts";
import { mkfifo, processPorts, runFolder, shell, stateLog } from "./fixtures/run.ts";
import { readRecord, runMark } from "./run-directory.ts";
import { startProcess } from "./start.ts";
import { createSupervisor } from "./supervisor.ts";
import { createSweep } from "./sweep.ts";

const open = () => createSupervisor(processPorts());

describe("a state folder with spaces, quotes and letters of other languages", () => {
  const name = `Ein Ordner's "für" 推論 $(x) --é`;

  it("the process marker contains only characters that all tools print unchanged, for any state folder", () => {
    expect(runMark(`/a/${name}`)).toMatch(/^METALBRIDGE_RUN_DIR=[!-~]+$/);
  });

  it("an engine starts, is adopted and is killed with its detached processes in a state folder with spaces, quotes and non-ASCII letters", async () => {
    await using folder = runFolder();
    const dir = folder.dir(name);
    const states = stateLog();
    const command = shell(`setsid sleep 100 9>&- </dev/null >/dev/null 2>&1 & exec sleep 100`);
    const first = await open().start(dir, command, () => {});
    await until(() => expect(first.state().at).toBe("running"));
    first.close();
    const engine = await open().adopt(dir, states.onChange);
    await engine?.signal("KILL");
    engine?.killGroup();
    await states.until("gone");
    const mark = runMark(dir);
    const { marked } = processPorts().identity;
    await until(async () => expect(await marked(mark)).toEqual([]));
  });
});

describe("an engine that the system refuses to start", () => {
  it.each([
    ["an argument that holds a NUL", ["/bin/echo", "a\0b"]],
    ["an argument longer than the system takes", ["/bin/echo", "x".repeat(8 << 20)]],
  ])("an engine that cannot start because of %s is a failed start", async (_what, argv) => {
    await using folder = runFolder();
    const dir = folder.dir();
    const before = descriptors();
    const failed = open().start(dir, shell("", { argv }), () => {});
    await expect(failed).rejects.toMatchObject({ code: "EngineStartFailed" });
    expect(await open().adopt(dir, () => {})).toBeUndefined();
    expect(readRecord(dir)).toEqual({ test: true });
    expect(descriptors()).toBe(before);
  });
});

it("an engine starts even if the FIFOs of an agent that was just killed appear late", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const ports = processPorts();
  const late = (step: string): void => {
    if (step === "record") mkfifo(join(dir, "main"));
  };
  const watch = { ...ports, sweep: createSweep({ ...ports, everyMs: 10_000 }) };
  const engine = await startProcess(dir, shell("exec sleep 100"), watch, () => {}, late);
  await until(() => expect(engine.state().at).toBe("running"));
  engine.close();
});

/** Open descriptors of this process, on platforms that list them. */
function descriptors(): number {
  return process.platform === "linux" ? readdirSync("/proc/self/fd").length : 0;
}
