import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createCommand } from "../../src/util/command.ts";
import { startLaunchd } from "../../test/bed/launchd/launchd.ts";
import { plutil } from "../../test/bed/launchd/plutil.ts";
import { replayCommands } from "../../test/bed/launchd/replayed-commands.ts";
import { renderPlistXml } from "../plist/agent-plist.ts";
import {
  type BootstrapFacts,
  classifyBootstrap,
  createLaunchctl,
  isDisabledIn,
  parseJob,
} from "./launchctl.ts";

const RECORDED = `gui/501/com.x = {
	active count = 1
	path = /Users/me/Library/LaunchAgents/com.x.plist
	type = LaunchAgent
	state = running

	program = /opt/homebrew/bin/node
	inherited environment = {
		path = /nested
		pid = 1
	}
	runs = 2
	pid = 16090
	immediate reason = non-ipc demand
	last exit code = 0
}
`;

test("parseJob reads the lines of the job and ignores nested blocks", () => {
  expect(parseJob(RECORDED, false)).toEqual({
    at: "loaded",
    isDisabled: false,
    isLeaving: false,
    path: "/Users/me/Library/LaunchAgents/com.x.plist",
    state: "running",
    pid: 16090,
    runs: 2,
    lastExit: "0",
  });
});

test.each([
  ["\tstate = SIGTERMed\n\tpid = 7", { isLeaving: true, pid: 7 }],
  [
    "\tstate = not running\n\tlast exit code = 78: EX_CONFIG",
    { isLeaving: false, lastExit: "78: EX_CONFIG" },
  ],
  ["\tstate = not running\n\tlast terminating signal = Terminated: 15", { lastExit: "Terminated: 15" }],
  ["\tstate = xpcproxy\n\tlast exit code = (never exited)", { lastExit: undefined, pid: undefined }],
  ["\truns = many", { state: "unknown", runs: undefined }],
  ["", { state: "unknown", path: undefined }],
])("parseJob reads %j", (text, expected) => {
  expect(parseJob(text, false)).toMatchObject(expected);
});

test("isDisabledIn finds disabled labels in both formats", () => {
  const text =
    '\n\tdisabled services = {\n\t\t"com.x" => disabled\n\t\t"com.y" => enabled\n\t\t"com.z" => true\n\t}\n';
  expect(["com.x", "com.y", "com.z", "com"].map((label) => isDisabledIn(text, label))).toEqual([
    true,
    false,
    true,
    false,
  ]);
});

const facts: BootstrapFacts = {
  exitCode: 5,
  definition: "/d.plist",
  domain: "system",
  job: { at: "absent", isDisabled: false },
  plistFault: undefined,
  file: { uid: 0, mode: 0o644 },
  ownerUid: 0,
  euid: 0,
};
const loaded = {
  at: "loaded" as const,
  isDisabled: false,
  path: "/d.plist",
  state: "running",
  pid: 1,
  runs: 1,
  lastExit: undefined,
  isLeaving: false,
};

test.each<[string, Partial<BootstrapFacts>, string | object]>([
  ["already loaded", { job: loaded }, "loaded"],
  ["still booting out", { job: { ...loaded, isLeaving: true } }, "leaving"],
  ["loaded from elsewhere", { job: { ...loaded, path: "/other.plist" } }, { code: "ServiceForeign" }],
  ["disabled", { job: { at: "absent", isDisabled: true } }, "disabled"],
  [
    "bad plist",
    { plistFault: "/d.plist: Encountered unknown tag YES on line 6" },
    { code: "ServiceLoadFailed", message: "/d.plist: Encountered unknown tag YES on line 6" },
  ],
  ["wrong owner", { file: { uid: 501, mode: 0o644 } }, { message: "/d.plist belongs to uid 501, not to 0" }],
  [
    "wrong mode",
    { file: { uid: 0, mode: 0o666 } },
    { message: "/d.plist can be written by others (mode 666)" },
  ],
  ["no file", { file: undefined }, { message: "/d.plist does not exist" }],
  ["no root", { euid: 501 }, { code: "RootRequired" }],
  [
    "no such domain",
    { exitCode: 125, domain: "gui/501", ownerUid: 501, file: { uid: 501, mode: 0o644 } },
    { code: "ServiceLoadFailed" },
  ],
  ["no visible cause", {}, "retry"],
])("bootstrap's exit code 5 means: %s", (_, change, expected) => {
  expect({ failure: classifyBootstrap({ ...facts, ...change }) }).toMatchObject({ failure: expected });
});

async function bed() {
  const folder = mkdtempSync(path.join(tmpdir(), "mb-launchctl-"));
  const definition = path.join(folder, "dev.metalbridge.agent.plist");
  const launchd = startLaunchd({ leaveMs: 300 });
  const commands = await replayCommands({ launchctl: launchd.launchctl, plutil });
  const run = createCommand(`${commands.bin}:/usr/bin:/bin`);
  const euid = process.geteuid?.() ?? 0;
  const domain = euid === 0 ? "system" : `gui/${euid}`;
  const supervisor = createLaunchctl({
    run,
    clock: systemClock,
    euid,
    layout: { domain, definition },
    leaveMs: 30_000,
  });
  const write = (change: object = {}) => {
    writeFileSync(
      definition,
      renderPlistXml({
        Label: "dev.metalbridge.agent",
        ProgramArguments: ["/bin/sleep", "600"],
        KeepAlive: true,
        ...change,
      }),
    );
    chmodSync(definition, 0o644);
  };
  write();
  return {
    launchd,
    supervisor,
    write,
    definition,
    run,
    domain,
    calls: commands.calls,
    [Symbol.asyncDispose]: async () => {
      await launchd.stopAll();
      await commands[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true });
    },
  };
}

test("load starts the job once, unload returns only when the job is unloaded, and both may be repeated", async () => {
  await using it = await bed();
  expect(await it.supervisor.observe()).toEqual({ at: "absent", isDisabled: false });
  await it.supervisor.load();
  await it.supervisor.load();
  expect(await it.supervisor.observe()).toMatchObject({ at: "loaded", path: it.definition });
  await it.supervisor.unload();
  expect(it.launchd.labels()).toEqual([]);
  await it.supervisor.unload();
  expect(it.calls.filter((call) => call.startsWith("launchctl bootstrap"))).toHaveLength(1);
});

test("load waits for a job that is booting out, and retries a failure without a visible cause", async () => {
  await using it = await bed();
  await it.supervisor.load();
  await it.run("launchctl", ["bootout", `${it.domain}/dev.metalbridge.agent`]);
  it.launchd.failBootstraps(2);
  await it.supervisor.load();
  expect(await it.supervisor.observe()).toMatchObject({ at: "loaded", isLeaving: false });
});

test("load enables a disabled label, and reports a malformed plist and one that others can write", async () => {
  await using it = await bed();
  await it.run("launchctl", ["disable", `${it.domain}/dev.metalbridge.agent`]);
  await it.supervisor.load();
  await it.supervisor.unload();
  chmodSync(it.definition, 0o666);
  await expect(it.supervisor.load()).rejects.toThrow(/can be written by others/);
  writeFileSync(it.definition, "<plist><dict><YES/></dict></plist>");
  chmodSync(it.definition, 0o644);
  await expect(it.supervisor.load()).rejects.toMatchObject({ code: "ServiceLoadFailed" });
});

test("restart starts a new process, and loads a job that is not loaded", async () => {
  await using it = await bed();
  await it.supervisor.restart();
  const pid = async () => {
    for (;;) {
      const job = await it.supervisor.observe();
      if (job.at === "loaded" && job.pid !== undefined) return job.pid;
    }
  };
  const first = await pid();
  await it.supervisor.restart();
  let next = first;
  while (next === first) next = await pid();
  expect(next).not.toBe(first);
});

test("without a login at the screen, a LaunchAgent is absent, and load reports the reason", async () => {
  const { launchctl } = startLaunchd({ hasLogin: false });
  await using commands = await replayCommands({ launchctl, plutil });
  const run = createCommand(`${commands.bin}:/usr/bin:/bin`);
  const layout = { domain: "gui/501", definition: "/nowhere.plist" };
  const supervisor = createLaunchctl({ run, clock: systemClock, euid: 501, layout, leaveMs: 1_000 });
  expect(await supervisor.observe()).toEqual({ at: "absent", isDisabled: false });
  await supervisor.unload();
  for (const start of [supervisor.load, supervisor.restart])
    await expect(start()).rejects.toThrow("no user is logged in at the screen");
});
