/** The same verbs on Linux: the program of a release, on a replayed systemd that really runs the agent. */
import { statSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { archiveOf, isRoot, PATIENT, prepareReleases, startMachine } from "../../test/bed/launchd/machine.ts";
import { parseShow } from "./systemctl.ts";

const UNIT = "metalbridge-agent.service";

const releases = await prepareReleases();
afterAll(() => releases[Symbol.asyncDispose]());

test.runIf(isRoot)(
  "a Linux host is installed, upgraded, rolled back, and cleared",
  async () => {
    await using machine = await startMachine({ platform: "linux" });
    const make = (version: string, program?: string) =>
      releases.make(version, { platform: "linux", program });
    const ran = await machine.run(make("1.0.0"), ["install", ...PATIENT]);
    expect(ran).toMatchObject({ code: 0, err: "" });
    const pid = machine.systemd.pidOf(UNIT);
    expect(machine.systemd.isEnabled(UNIT)).toBe(true);
    expect(statSync(machine.at("var/lib/metalbridge")).uid).toBe(990);
    expect(await machine.service()).toMatchObject({
      manager: "systemd",
      current: "1.0.0",
      differing: [],
      logs: "journalctl -u metalbridge-agent",
      agent: { pid, version: "1.0.0", phase: "serving" },
    });
    expect((await machine.run(make("1.0.0"), ["install", ...PATIENT])).out).toBe(
      "version 1.0.0 runs already\n",
    );
    expect(machine.systemd.pidOf(UNIT)).toBe(pid);
    expect((await machine.run(make("1.1.0"), ["upgrade", ...PATIENT])).code).toBe(0);
    const stop = await machine.run(machine.installed, ["stop"]);
    expect([stop.code, machine.systemd.pidOf(UNIT)]).toEqual([0, undefined]);
    expect((await machine.run(machine.installed, ["start", ...PATIENT])).code).toBe(0);
    expect((await machine.run(machine.installed, ["restart", ...PATIENT])).code).toBe(0);
    const bad = make("2.0.0", 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000);');
    const archive = archiveOf(bad, `${bad}.tar.gz`);
    const failed = await machine.run(machine.installed, [
      "upgrade",
      "--archive",
      archive,
      "--timeout-seconds",
      "5",
    ]);
    expect(failed.err).toMatch(/^UpgradeRolledBack[\s\S]*journalctl/);
    expect(await machine.service()).toMatchObject({ current: "1.1.0", agent: { version: "1.1.0" } });
    expect((await machine.run(machine.installed, ["uninstall", "--purge"])).code).toBe(0);
    expect(machine.files()).toEqual([]);
    expect([machine.systemd.isEnabled(UNIT), machine.systemd.pidOf(UNIT)]).toEqual([false, undefined]);
    expect(machine.directory.idsOf("metalbridge")).toBeUndefined();
  },
  300_000,
);

test.each([
  [
    "ActiveState=active\nSubState=running\nMainPID=7\nNRestarts=0",
    { at: "loaded", pid: 7, runs: 1, isLeaving: false },
  ],
  ["ActiveState=deactivating\nMainPID=7", { at: "loaded", isLeaving: true }],
  [
    "ActiveState=activating\nSubState=auto-restart\nMainPID=0\nNRestarts=3\nExecMainStatus=1",
    { pid: undefined, runs: 4, lastExit: "1" },
  ],
  ["ActiveState=inactive\nUnitFileState=masked", { at: "absent", isDisabled: true }],
  ["ActiveState=failed\nMainPID=0", { at: "absent" }],
  ["", { at: "absent" }],
])("%j is understood", (text, expected) => {
  expect(parseShow(text)).toMatchObject(expected);
});
