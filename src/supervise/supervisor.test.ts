import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { until } from "../../test/bed/until.ts";
import { START_LINE } from "../engines/contract/last-run.ts";
import { isLiving, processPorts, runFolder, shell, stateLog } from "./fixtures/run.ts";
import { readRecord } from "./run-directory.ts";
import { createSupervisor } from "./supervisor.ts";

const open = () => createSupervisor(processPorts());

describe("an engine of this agent", () => {
  it("an engine is reported as starting, running and ended with its exit code", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const engine = await open().start(folder.dir(), shell("echo hello; exit 3"), states.onChange);
    await until(() => expect(engine.state()).toEqual({ at: "gone", exit: { code: 3 } }));
    expect(await engine.logTail(1000)).toContain("hello\n");
    expect(readRecord(engine.dir)).toEqual({ test: true });
  });

  it("the exit of a signaled engine is reported before any sweep, with the signal", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const { start } = createSupervisor(processPorts({ sweepMs: 3_600_000 }));
    const engine = await start(folder.dir(), shell("exec sleep 100"), states.onChange);
    await until(() => expect(engine.state().at).toBe("running"));
    expect(await engine.signal("TERM")).toBe("sent");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { signal: "SIGTERM" } });
    expect(await engine.signal("TERM")).toBe("not running");
  });

  it("an engine that cannot be executed ends with 127, with the reason in the log", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const command = { ...shell(""), argv: ["/nowhere/llama-server"] };
    const engine = await open().start(folder.dir(), command, states.onChange);
    await until(() => expect(engine.state()).toEqual({ at: "gone", exit: { code: 127 } }));
    expect(await engine.logTail(1000)).toContain("/nowhere/llama-server");
  });

  it("an engine cannot start in a working folder that does not exist", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const { start, adopt } = open();
    const failed = start(dir, shell("true", { cwd: "/nowhere" }), () => {});
    await expect(failed).rejects.toMatchObject({ code: "EngineStartFailed" });
    expect(await adopt(dir, () => {})).toBeUndefined();
  });

  it("an engine inherits no descriptors except its output, /dev/null and the end of `alive`", async () => {
    if (process.platform !== "linux") return;
    await using folder = runFolder();
    const { start } = open();
    const dir = folder.dir();
    for (let index = 0; index < 3; index += 1)
      await start(folder.dir(`other-${index}`), shell("exec sleep 100"), () => {});
    const engine = await start(dir, shell("exec sleep 100"), () => {});
    await until(() => expect(engine.state().at).toBe("running"));
    const state = engine.state();
    const fds = `/proc/${state.at === "running" ? state.pid : 0}/fd`;
    await until(() => {
      const links = readdirSync(fds).map((fd) => [fd, readlinkSync(join(fds, fd))]);
      expect(Object.fromEntries(links.filter(([fd, link]) => !isInherited(fd, link)))).toEqual({
        0: "/dev/null",
        1: join(dir, "log"),
        2: join(dir, "log"),
        9: join(dir, "alive"),
      });
    });
  });

  it("a start is refused while an earlier engine runs in the folder, and succeeds once that engine has exited", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const { start } = open();
    const states = stateLog();
    const engine = await start(dir, shell("echo first; exec sleep 100"), states.onChange);
    await expect(start(dir, shell("echo second"), () => {})).rejects.toMatchObject({
      code: "EngineStillRunning",
    });
    await until(() => expect(readFileSync(join(dir, "log"), "utf8")).toContain("\nfirst\n"));
    await until(() => expect(engine.state().at).toBe("running"));
    await engine.signal("KILL");
    await states.until("gone");
    const second = await start(dir, shell("echo second"), () => {});
    await until(() => expect(second.state()).toEqual({ at: "gone", exit: { code: 0 } }));
    const lines = readFileSync(join(dir, "log"), "utf8")
      .split("\n")
      .filter((line) => /^(first|second|-)/.test(line));
    expect(lines).toEqual([
      expect.stringContaining(START_LINE),
      "first",
      expect.stringContaining(START_LINE),
      "second",
    ]);
  });

  it("an engine receives arguments with spaces, quotes and dollar signs unchanged", async () => {
    await using folder = runFolder();
    const dir = folder.dir("a folder with $(spaces)");
    const words = ["a b", "$HOME", "'\"`id`", "", "*", "new\nline"];
    const command = { ...shell(""), argv: ["/usr/bin/printf", "%s|", ...words] };
    const engine = await open().start(dir, command, () => {});
    await until(() => expect(engine.state().at).toBe("gone"));
    expect(await engine.logTail(1000)).toContain(words.map((word) => `${word}|`).join(""));
  });
});

describe("what outlives the main process", () => {
  it("an engine stays `ended` until the processes that outlive its main process have exited too", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const script = "sleep 100 & echo $! >child; read line <&0; exit 5";
    const engine = await open().start(folder.dir(), shell(script), states.onChange);
    await until(() => expect(engine.state()).toEqual({ at: "ended", exit: { code: 5 } }));
    const child = Number(readFileSync(join(engine.dir, "child"), "utf8"));
    expect(engine.state().at).toBe("ended");
    process.kill(child, "SIGKILL");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { code: 5 } });
  });

  it("a surviving process that closed the FIFO is detected, and killed by killGroup", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const script = "sleep 100 9>&- & echo $! >child; exit 0";
    const engine = await open().start(folder.dir(), shell(script), states.onChange);
    await until(() => expect(engine.state().at).toBe("ended"));
    const child = Number(readFileSync(join(engine.dir, "child"), "utf8"));
    expect(isLiving(child)).toBe(true);
    engine.killGroup();
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { code: 0 } });
    expect(isLiving(child)).toBe(false);
  });

  it("killGroup kills a surviving process even in its own session", async () => {
    await using folder = runFolder();
    if (process.platform !== "linux") return;
    const states = stateLog();
    const engine = await open().start(folder.dir(), shell("setsid sleep 100 & exit 0"), states.onChange);
    await until(() => expect(engine.state().at).toBe("ended"));
    engine.killGroup();
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { code: 0 } });
  });

  it("killGroup kills a running engine and its shim; the exit status is unknown or KILL", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const engine = await open().start(
      folder.dir(),
      shell("trap '' TERM; echo deaf; while :; do sleep 1; done"),
      states.onChange,
    );
    await until(() => expect(engine.state().at).toBe("running"));
    await until(async () => expect(await engine.logTail(100)).toContain("deaf\n"));
    await engine.signal("TERM");
    engine.killGroup();
    await states.until("gone");
    expect([
      { at: "gone", exit: "unknown" },
      { at: "gone", exit: { signal: "SIGKILL" } },
    ]).toContainEqual(engine.state());
  });
});

describe("strangers", () => {
  it("a pid that now belongs to another process is neither running nor signaled", async () => {
    await using folder = runFolder();
    const dir = folder.dir();
    const { start, adopt } = open();
    const stranger = await start(folder.dir("stranger"), shell("exec sleep 100"), () => {});
    const old = await start(dir, shell("exec true"), () => {});
    await until(() => expect(stranger.state().at).toBe("running"));
    await until(() => expect(old.state().at).toBe("gone"));
    const state = stranger.state();
    const pid = state.at === "running" ? state.pid : 0;
    writeFileSync(join(dir, "pid"), `${pid} some-other-start-time\n`);
    writeFileSync(join(dir, "session"), `${pid} some-other-start-time\n`);
    const adopted = await adopt(dir, () => {});
    expect(adopted?.state()).toEqual({ at: "gone", exit: { code: 0 } });
    await adopted?.signal("KILL");
    adopted?.killGroup();
    expect(isLiving(pid)).toBe(true);
  });
});

/** Descriptors that the test process inherited are not created by this code. */
function isInherited(fd = "", link = ""): boolean {
  try {
    return Number(fd) > 9 && readlinkSync(`/proc/self/fd/${fd}`) === link;
  } catch {
    return false;
  }
}
