/** What stops while root waits: a command that a terminal ends, an agent that takes its time, and one that drains engines. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import {
  archiveOf,
  isRoot,
  type Machine,
  PATIENT,
  PLIST,
  prepareReleases,
  STATE,
  startMachine,
} from "../test/bed/launchd/machine.ts";

const WAIT = { timeout: 60_000, interval: 10 };

const releases = await prepareReleases();
const one = releases.make("1.0.0");
afterAll(() => releases[Symbol.asyncDispose]());

/** As the shell of a terminal starts it: in a process group of its own. */
function startVerb(machine: Machine, ...args: readonly string[]): ChildProcess {
  const program = path.join(one, "bin", "metalbridge");
  const env = { PATH: `${machine.bin}:/usr/bin:/bin`, HOME: "/home/me" };
  const place = ["--root", machine.root, "--platform", "darwin"];
  return spawn(program, [...args, ...place], { env, cwd: "/", detached: true, stdio: "ignore" });
}

test.runIf(isRoot)(
  "Ctrl-C and a closed terminal between the stop and the start of an agent leave it running, with its new definition",
  async () => {
    let verb: ChildProcess | undefined;
    await using machine: Machine = await startMachine({
      commands: {
        launchctl: (call) => {
          if (call.args[0] === "bootout" && verb?.pid !== undefined) {
            for (const signal of ["SIGINT", "SIGHUP"]) process.kill(-verb.pid, signal);
            verb.kill("SIGTERM");
          }
          return machine.launchd.launchctl(call);
        },
      },
    });
    await machine.run(one, ["install", ...PATIENT]);
    verb = startVerb(machine, "install", "--drain-seconds", "31", ...PATIENT);
    expect(await once(verb, "exit")).toEqual([0, null]);
    expect(machine.read(PLIST)).toContain("<integer>46</integer>");
    expect(await machine.service()).toMatchObject({ agent: { version: "1.0.0", phase: "serving" } });
  },
);

test.runIf(isRoot)("an agent has the time of the definition that it was started with to stop", async () => {
  // 45 s of the installed definition are 28, the 16 s of the new one and the margin 26.
  await using machine = await startMachine({ msPerSecond: 620 });
  const program = 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000);';
  const slow = releases.make("1.0.0", { program });
  const args = ["install", "--archive", archiveOf(slow, machine.at("slow.tar.gz")), "--timeout-seconds", "1"];
  expect((await machine.run(one, args)).err).toMatch(/^ServiceUnhealthy/);
  expect((await machine.run(one, [...args, "--drain-seconds", "1"])).err).toMatch(/^ServiceUnhealthy/);
  expect(machine.read(PLIST)).toContain("<integer>16</integer>");
});

test.runIf(isRoot)(
  "the agent that drains the engines for root has a session of its own, and ends with the command",
  async () => {
    await using machine = await startMachine();
    await machine.run(one, ["install", ...PATIENT]);
    const engine = spawn("sleep", ["600"], { stdio: "ignore" });
    try {
      const dir = machine.at(`${STATE}/engines/5e1f`);
      mkdirSync(dir, { recursive: true });
      const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
      writeFileSync(path.join(dir, "pid"), `${engine.pid} ${bootId}:${fieldsOf(engine.pid)[19]}\n`);
      const verb = startVerb(machine, "uninstall", "--stop-engines");
      const pid = await vi.waitFor(() => processWith(machine.root, "--stop-engines"), WAIT);
      expect(fieldsOf(pid)[3]).toBe(String(pid));
      expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).toContain("--disable-sigusr1");
      verb.kill("SIGKILL");
      await vi.waitFor(() => expect(existsSync(`/proc/${pid}`)).toBe(false), WAIT);
    } finally {
      engine.kill("SIGKILL");
    }
  },
);

/** Fields of `/proc/PID/stat` from the state on: the fourth is the session, the twentieth the start time. */
function fieldsOf(pid: number | undefined): readonly string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** The agent of a machine that was started with a flag. */
function processWith(root: string, flag: string): number {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const found = pids.find((pid) => {
    try {
      const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      return argv.includes("agent") && argv.includes(flag) && argv.some((word) => word.startsWith(root));
    } catch {
      return false;
    }
  });
  if (found === undefined) throw new Error(`no agent with ${flag}`);
  return Number(found);
}
