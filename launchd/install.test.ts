/**
 * Install, upgrade and uninstall as a user runs them: the program of a release, on a replayed Mac whose launchd really runs the agent.
 * CPU: each install copies and checks a whole release, and starts a real agent.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import {
  isRoot,
  LABEL,
  PATIENT,
  PLIST,
  PREFIX,
  prepareReleases,
  STATE,
  startMachine,
} from "../test/bed/launchd/machine.ts";

const LOCKED = path.join(import.meta.dirname, "fixtures", "locked.ts");

const releases = await prepareReleases();
const [one, two] = [releases.make("1.0.0"), releases.make("1.1.0")];
afterAll(() => releases[Symbol.asyncDispose]());

test.runIf(isRoot)(
  "a Mac is installed, left alone, corrected, upgraded, and cleared",
  async () => {
    await using machine = await startMachine();
    const ran = await machine.run(one, ["install", ...PATIENT]);
    expect(ran).toMatchObject({
      code: 0,
      err: "",
      out: expect.stringMatching(/version 1\.0\.0 is installed and runs\n$/),
    });
    expect(machine.directory.idsOf("_metalbridge")).toEqual({ uid: 421, gid: 421 });
    expect(statSync(machine.at(STATE))).toMatchObject({ uid: 421, gid: 421 });
    expect(statSync(machine.at(PLIST))).toMatchObject({ uid: 0, mode: 0o100644 });
    expect(statSync(machine.at(`${STATE}/agent.sock`)).uid).toBe(421);
    const pid = machine.launchd.pidOf(LABEL);
    expect(await machine.service()).toMatchObject({
      current: "1.0.0",
      differing: [],
      engines: 0,
      job: { at: "loaded", state: "running", runs: 1, pid },
      agent: { at: "answers", version: "1.0.0", phase: "serving", pid },
    });
    expect(machine.read(`${STATE}/logs/agent.log`)).toContain('"msg":"agent started"');

    // Twice: nothing happens.
    expect(await machine.run(one, ["install", ...PATIENT])).toMatchObject({
      code: 0,
      out: "version 1.0.0 runs already\n",
    });
    expect(machine.launchd.pidOf(LABEL)).toBe(pid);

    // A plist edited by hand is shown, and corrected by the next install.
    const plist = machine.read(PLIST) ?? "";
    writeFileSync(machine.at(PLIST), plist.replace("Interactive", "Background"));
    const shown = await machine.run(machine.installed, ["service"]);
    expect(shown.out).toContain(`${PLIST} differs from what install writes`);
    expect((await machine.run(one, ["install", ...PATIENT])).out).toContain(
      "start the agent with its new definition",
    );
    expect(machine.read(PLIST)).toBe(plist);

    // An upgrade only switches and restarts: the plist stays as it is.
    const before = machine.calls.length;
    expect(await machine.run(two, ["upgrade", ...PATIENT])).toMatchObject({ code: 0, err: "" });
    expect(machine.calls.slice(before).filter((call) => /bootout|bootstrap/.test(call))).toEqual([]);
    expect([machine.current(), machine.versions()]).toEqual(["1.1.0", ["1.0.0", "1.1.0"]]);
    expect(await machine.service()).toMatchObject({ previous: "1.0.0", agent: { version: "1.1.0" } });

    // Older: only when asked for.
    expect(await machine.run(one, ["upgrade"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("DowngradeRefused"),
    });
    expect(machine.current()).toBe("1.1.0");
    expect((await machine.run(one, ["upgrade", "--allow-downgrade", ...PATIENT])).code).toBe(0);
    expect(machine.current()).toBe("1.0.0");

    // The models stay, and with them the account.
    mkdirSync(machine.at(`${STATE}/models/blobs`), { recursive: true });
    writeFileSync(machine.at(`${STATE}/models/blobs/weights`), "weights");
    const gone = await machine.run(machine.installed, ["uninstall"]);
    expect(gone).toMatchObject({ code: 0, out: expect.stringContaining("the models remain in") });
    expect(machine.launchd.labels()).toEqual([]);
    expect(machine.files()).toEqual([machine.at(`${STATE}/models/blobs/weights`)]);
    expect(await machine.run(one, ["uninstall"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("InstallNotFound"),
    });

    // Again, and then without a trace.
    expect((await machine.run(one, ["install", ...PATIENT])).code).toBe(0);
    expect((await machine.run(one, ["uninstall", "--purge"])).code).toBe(0);
    expect(machine.files()).toEqual([]);
    expect([...machine.directory.records.keys()].filter((record) => record.includes("metalbridge"))).toEqual(
      [],
    );
  },
  400_000,
);

test.runIf(isRoot)("stop, start and restart are safe to repeat", async () => {
  await using machine = await startMachine();
  await machine.run(one, ["install", ...PATIENT]);
  const run = async (verb: string) =>
    (await machine.run(machine.installed, [verb, ...(verb === "stop" ? [] : PATIENT)])).out;
  expect(await run("stop")).toMatch(/^the agent is stopped/);
  expect(await run("stop")).toMatch(/already stopped/);
  expect(machine.launchd.labels()).toEqual([]);
  expect(await run("start")).toMatch(/^the agent runs, version 1\.0\.0/);
  const pid = machine.launchd.pidOf(LABEL);
  expect(await run("start")).toMatch(/^the agent runs/);
  expect(machine.launchd.pidOf(LABEL)).toBe(pid);
  expect(await run("restart")).toMatch(/^the agent runs/);
  const restarted = machine.launchd.pidOf(LABEL);
  expect(restarted).not.toBe(pid);

  // One command at a time, until the other has exited, even by a kill.
  const other = spawn(process.execPath, [LOCKED, machine.root], { stdio: ["ignore", "pipe", "inherit"] });
  await once(other.stdout, "data");
  for (const verb of ["install", "upgrade", "uninstall", "stop", "start", "restart"])
    expect((await machine.run(one, [verb])).err).toMatch(
      new RegExp(`^InstallBusy: .*\\(pid ${other.pid}\\)`),
    );
  expect(machine.launchd.pidOf(LABEL)).toBe(restarted);
  other.kill("SIGKILL");
  await once(other, "exit");

  // After a restart of the machine launchd starts the agent by its plist alone.
  await machine.launchd.reboot(path.dirname(machine.at(PLIST)));
  expect(await run("start")).toMatch(/^the agent runs, version 1\.0\.0/);
  expect(await machine.service()).toMatchObject({ job: { runs: 1 }, agent: { version: "1.0.0" } });
});

test.runIf(isRoot)(
  "a LaunchAgent is installed, upgraded and removed by its user, and runs as that user",
  async () => {
    await using machine = await startMachine();
    const uid = 65_534;
    mkdirSync(machine.at("home/me"), { recursive: true });
    chownSync(machine.at("home/me"), uid, uid);
    const run = (release: string, ...args: string[]) => machine.run(release, args, { uid });
    expect(await run(one, "install", "--scope", "user", ...PATIENT)).toMatchObject({ code: 0, err: "" });
    const home = machine.at("home/me");
    const sock = path.join(home, "Library/Application Support/metalbridge/agent.sock");
    expect(statSync(sock).uid).toBe(uid);
    expect(machine.files().filter((file) => !file.startsWith(home))).toEqual([]);
    const installed = path.join(home, ".local/lib/metalbridge/current");
    const shown = await run(installed, "service", "-o", "json");
    expect(JSON.parse(shown.out)).toMatchObject({
      scope: "user",
      current: "1.0.0",
      differing: [],
      job: { path: path.join(home, `Library/LaunchAgents/${LABEL}.plist`) },
      agent: { version: "1.0.0", phase: "serving" },
    });
    expect(await run(two, "upgrade", ...PATIENT)).toMatchObject({ code: 0, err: "" });
    expect(await run(installed, "uninstall", "--purge")).toMatchObject({ code: 0, err: "" });
    expect(machine.files()).toEqual([]);
    expect(machine.launchd.labels()).toEqual([]);
    // Only launchd of a login session has the domain: over ssh there may be none.
    expect(machine.calls.filter((call) => /^dscl|system/.test(call))).toEqual([]);
  },
);

test.runIf(isRoot)("without root nothing is changed, and the message says so", async () => {
  await using machine = await startMachine();
  for (const verb of [["install"], ["install", "--archive", "/x.tar.gz"]])
    expect(await machine.run(one, verb, { uid: 65_534 })).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^RootRequired[\s\S]*sudo/),
    });
  expect(machine.files()).toEqual([]);
  await machine.run(one, ["install", ...PATIENT]);
  const before = machine.calls.length;
  for (const verb of ["stop", "start", "restart", "uninstall", "upgrade"])
    expect((await machine.run(one, [verb], { uid: 65_534 })).err).toMatch(/^RootRequired/);
  const shown = await machine.run(one, ["service"], { uid: 65_534 });
  expect(shown).toMatchObject({ code: 0, out: expect.stringContaining("unknown: ") });
  const changing = machine.calls
    .slice(before)
    .filter((call) => /bootout|bootstrap|kickstart|-create|-delete/.test(call));
  expect(changing).toEqual([]);
});

test.runIf(isRoot)(
  "a job of our label from another file is refused, and replaced when asked for",
  async () => {
    await using machine = await startMachine();
    const foreign = machine.at("Library/LaunchDaemons/mine.plist");
    mkdirSync(path.dirname(foreign), { recursive: true });
    writeFileSync(
      foreign,
      `<plist version="1.0"><dict><key>Label</key><string>${LABEL}</string><key>ProgramArguments</key><array><string>/bin/sleep</string><string>600</string></array><key>KeepAlive</key><true/></dict></plist>`,
    );
    await machine.launchd.launchctl({ args: ["bootstrap", "system", foreign], euid: 0 });
    const refused = await machine.run(one, ["install"]);
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/^ServiceForeign: .*mine\.plist/) });
    expect(existsSync(machine.at(PREFIX))).toBe(false);
    expect((await machine.run(one, ["install", "--take-over", ...PATIENT])).code).toBe(0);
    expect(await machine.service()).toMatchObject({
      job: { path: machine.at(PLIST) },
      agent: { version: "1.0.0" },
    });
  },
);

test.runIf(isRoot)(
  "an agent in a terminal that holds the state folder is not taken for the service",
  async () => {
    // Long enough between two starts that the agent is seen to have exited, however slowly it starts.
    await using machine = await startMachine({ msPerSecond: 500 });
    machine.directory.add("farm", 0);
    const program = path.join(one, "bin", "metalbridge");
    const env = { PATH: "/usr/bin:/bin", HOME: machine.root };
    const terminal = spawn(program, ["agent", "--state-dir", machine.at(STATE)], { env, stdio: "pipe" });
    terminal.stderr.setEncoding("utf8");
    try {
      for await (const text of terminal.stderr) if (text.includes('"agent started"')) break;
      const ran = await machine.run(one, ["install", "--user", "farm", "--timeout-seconds", "60"]);
      expect(ran.err).toMatch(/^ServiceUnhealthy: .*(the service did not start|exits repeatedly)/);
      expect(ran.err).toContain("StateDirInUse");
    } finally {
      terminal.kill("SIGKILL");
    }
  },
);

test.runIf(isRoot)("a broken installation is repaired", async () => {
  await using machine = await startMachine();
  await machine.run(one, ["install", ...PATIENT]);
  await machine.run(machine.installed, ["stop"]);
  execFileSync("rm", ["-rf", machine.at(PREFIX), machine.at("usr/local/etc")]);
  execFileSync("ln", ["-sfn", "/nowhere", machine.at("usr/local/bin/metalbridge")]);
  const ran = await machine.run(one, ["install", "--take-over", ...PATIENT]);
  expect(ran).toMatchObject({ code: 0, err: "" });
  expect(await machine.service()).toMatchObject({ differing: [], agent: { version: "1.0.0" } });
});

test.runIf(isRoot)("uninstall refuses while an engine runs, and a dry run changes nothing", async () => {
  await using machine = await startMachine();
  expect((await machine.run(one, ["install", "--dry-run"])).out).toMatch(
    /would copy version 1\.0\.0[\s\S]*would start the agent/,
  );
  expect(machine.files()).toEqual([]);
  await machine.run(one, ["install", ...PATIENT]);
  const engine = spawn("sleep", ["600"], { stdio: "ignore" });
  try {
    const dir = machine.at(`${STATE}/engines/5e1f`);
    mkdirSync(dir, { recursive: true });
    const stat = readFileSync(`/proc/${engine.pid}/stat`, "utf8");
    const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const ticks = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
    writeFileSync(path.join(dir, "pid"), `${engine.pid} ${bootId}:${ticks}\n`);
    const state = await machine.service();
    expect(state.engines).toBe(1);
    const ran = await machine.run(machine.installed, ["uninstall"]);
    expect(ran).toMatchObject({ code: 1, err: expect.stringMatching(/^EnginesRunning: 1 engines run/) });
    expect(machine.launchd.labels()).toEqual([LABEL]);
    const dry = await machine.run(machine.installed, ["uninstall", "--dry-run"]);
    expect(dry.out).toMatch(/would stop the agent\nwould drain and stop 1 engine\n/);
    expect(machine.launchd.labels()).toEqual([LABEL]);
    // A replica in a daemon that others started has no process: its gate has.
    mkdirSync(machine.at(`${STATE}/gate`), { recursive: true });
    renameSync(dir, machine.at(`${STATE}/gate/1`));
    mkdirSync(dir);
    writeFileSync(path.join(dir, "engine.json"), "{}");
    expect((await machine.run(machine.installed, ["uninstall"])).err).toMatch(
      /^EnginesRunning: 1 engines run/,
    );
  } finally {
    engine.kill("SIGKILL");
  }
});
