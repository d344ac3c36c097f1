/** Programs in a terminal that outlives the agent: input, output, exits and faults. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import {
  isLiving,
  makeFolder,
  pidIn,
  processPorts,
  runFolder,
  shell,
} from "../../../../src/supervise/fixtures/run.ts";
import { runMark } from "../../../../src/supervise/run-directory.ts";
import { createSupervisor } from "../../../../src/supervise/supervisor.ts";
import { until } from "../../../../test/bed/until.ts";
import type { Instance } from "../../instance.ts";
import { createProcessInstances } from "../process-instance.ts";
import { attachTo } from "./fixtures/attached.ts";

const ports = processPorts();
const target = { host: "127.0.0.1", port: 1 };
const MINUTE = 60_000;

/** The processes of one agent. */
function agent(changes: Parameters<typeof processPorts>[0] = {}) {
  const processes = createSupervisor({ ...ports, ...changes });
  const instances = createProcessInstances(processes, {
    ...ports,
    ...changes,
    footprintBytes: async (pid) => pid,
  });
  return {
    open: (dir: string, script: string, env = {}) => {
      const command = { ...shell(script, { env: { PATH: "/usr/bin:/bin", ...env } }), tty: true };
      return instances.open({ dir, log: ports.log, onChange: () => {} }, { ...command, target });
    },
    adopt: (dir: string) => instances.adopt({ dir, log: ports.log, onChange: () => {} }, target),
  };
}

const logOf = (dir: string) => readFileSync(join(dir, "log"), "utf8");
const endOf = (path: string) => execFileSync("tail", ["-c", "100", path], { encoding: "utf8" });
const untilGone = (instance: Instance) =>
  until(() => {
    const state = instance.state();
    expect(state.at).toBe("gone");
    return state.at === "gone" ? state.exit : undefined;
  });

test("input is echoed and answered, the program sees the window size, and the next agent adopts the terminal", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const first = await agent().open(
    dir,
    `tty >tty.name; ls -l /proc/$$/fd >descriptors; printf 'name? '; read -r name; echo "hello $name"; while read -r line; do stty size; done`,
    { TERM: "xterm" },
  );
  const attached = await attachTo(dir, { columns: 100, rows: 30 });
  await until(() => expect(attached.output).toContain("name? "));
  attached.type("Ada\r");
  await until(() => expect(attached.output).toContain("name? Ada\r\nhello Ada\r\n"));
  expect(readFileSync(join(dir, "tty.name"), "utf8")).toContain("/dev/");
  // The program inherits no descriptor of the terminal's process, such as the pty master.
  const descriptors = readFileSync(join(dir, "descriptors"), "utf8");
  expect(descriptors).not.toMatch(/ptmx|socket|eventpoll/);
  if (process.platform === "linux") expect(descriptors).toContain(join(dir, "alive"));
  attached.type("size\r");
  await until(() => expect(attached.output).toContain("30 100"));

  first.close();
  const second = await agent().adopt(dir);
  expect(second?.state()).toMatchObject({ at: "running", pid: pidIn(dir) });
  const program = Number.parseInt(readFileSync(join(dir, "program"), "utf8"), 10);
  expect(await second?.footprintBytes()).toBe(pidIn(dir) + program);
  process.kill(program, "SIGSTOP");
  await until(async () => expect(await second?.activity()).toBe("stopped"));
  process.kill(program, "SIGCONT");
  attached.resize({ columns: 90, rows: 20 });
  attached.type("again\r");
  await until(() => expect(attached.output).toContain("20 90"));
  expect(logOf(dir)).toContain("name? Ada\nhello Ada\n");
  second?.killNow();
  expect(second && (await untilGone(second))).toEqual({ signal: "SIGKILL" });
  await until(() => expect(isLiving(program)).toBe(false));
});

test("a later client receives the last lines and the modes, and the program repaints; a read-only client cannot type or set the size", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(
    dir,
    String.raw`trap 'echo "repaint $(stty size)"' WINCH
printf '\033]0;title\007first\r\n\033[1mbold\033[0m\r\n\033[?2004;1000h\033[?1000l'; while :; do read -r line && echo "<$line>"; done`,
  );
  const one = await attachTo(dir);
  await until(() => expect(one.output).toContain("bold"));
  one.detach();

  const reader = await attachTo(dir, { columns: 20, rows: 5, readOnly: true });
  const received = "first\r\nbold\r\n";
  await until(() => expect(reader.output).toContain(received));
  expect(reader.output.slice(reader.output.indexOf(received))).toContain("\u001b[?2004h\u001b[?1000l");
  // The size is the same, so it changes for a moment.
  await until(() => expect(reader.output).toMatch(/repaint 23 80[\s\S]*repaint 24 80/));
  reader.type("no\r");
  const writer = await attachTo(dir, { columns: 60, rows: 40 });
  await until(() => expect(reader.output).toContain("repaint 40 60"));
  const small = await attachTo(dir, { columns: 70, rows: 10 });
  // The size has the rows of one client and the columns of the other.
  await until(() => expect(writer.output).toContain("repaint 10 60"));
  writer.type("yes\r");
  for (const each of [reader, writer, small]) await until(() => expect(each.output).toContain("<yes>"));
  expect(reader.output).not.toContain("<no>");
  instance.killNow();
  await untilGone(instance);
});

test.each<[string, string, object, string]>([
  ["code", "echo out; exit 7", { code: 7 }, "out\n"],
  ["signal", "kill -SEGV $$", { signal: "SIGSEGV" }, ""],
  ["code of a program that does not exist", "exec /nowhere/program", { code: 127 }, "/nowhere/program"],
])("a program that exits at once is recorded with its %s", async (_, script, exit, says) => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(dir, `${script}`);
  expect(await untilGone(instance)).toEqual(exit);
  expect(logOf(dir)).toContain(says);
  expect(logOf(dir)).not.toContain("\r");
});

test("clients receive the program's exit status after all of its output", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(
    dir,
    "read -r line; head -c 500000 /dev/zero | tr '\\0' x; echo END; kill -9 $$",
  );
  const attached = await attachTo(dir);
  attached.type("go\r");
  await until(() => expect(attached.exit).toEqual({ signal: "SIGKILL" }));
  expect(attached.output.slice(-70_000)).toMatch(/^x*END\r\n$/);
  await untilGone(instance);
});

test("TERM reaches the whole group; a program that ignores TERM and HUP is killed together with its detached processes", async () => {
  await using folder = runFolder();
  const obeying = folder.dir("obeying");
  const stubborn = folder.dir("stubborn");
  const first = await agent().open(obeying, "trap 'exit 3' TERM; sleep 100 & echo $! >child; wait");
  const second = await agent().open(
    stubborn,
    "trap '' TERM HUP; setsid sh -c 'trap \"\" HUP; echo $$ >child; while :; do sleep 1; done' & while :; do sleep 1; done",
  );
  for (const dir of [obeying, stubborn])
    await until(() => expect(readFileSync(join(dir, "child"), "utf8")).toMatch(/^\d+\n$/));
  for (const instance of [first, second]) await until(() => expect(instance.state().at).toBe("running"));
  const children = [obeying, stubborn].map((dir) => Number(readFileSync(join(dir, "child"), "utf8")));
  first.stopBy(ports.clock.monotonicMs() + 30_000);
  second.stopBy(ports.clock.monotonicMs() + 500);
  expect(await untilGone(first)).toEqual({ code: 3 });
  expect(await untilGone(second)).toEqual({ signal: "SIGKILL" });
  await until(() => expect(children.map(isLiving)).toEqual([false, false]));
});

test("TERM reaches a program that was started immediately before", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(dir, "trap 'exit 3' TERM; : >ready; while :; do sleep 0.1; done");
  // There is no pause here, so the terminal's process is still starting.
  while (!existsSync(join(dir, "ready")));
  instance.stopBy(ports.clock.monotonicMs() + MINUTE);
  expect(await untilGone(instance)).toEqual({ code: 3 });
});

test("a program that daemonizes counts as exited, and its remaining processes are found and killed", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(
    dir,
    "setsid sh -c 'echo $$ >child; exec sleep 100' & while [ ! -s child ]; do :; done",
  );
  await until(() => expect(instance.state()).toEqual({ at: "ended", exit: { code: 0 } }));
  const child = Number(readFileSync(join(dir, "child"), "utf8"));
  expect(isLiving(child)).toBe(true);
  instance.killNow();
  await untilGone(instance);
  await until(() => expect(isLiving(child)).toBe(false));
});

test("when only the terminal's process is killed, a program that ignores HUP counts as left over", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(dir, "trap '' HUP; echo ready; while :; do sleep 1; done");
  await until(() => expect(logOf(dir)).toContain("ready"));
  await until(() => expect(instance.state().at).toBe("running"));
  process.kill(pidIn(dir), "SIGKILL");
  await until(() => expect(instance.state()).toEqual({ at: "ended", exit: { signal: "SIGKILL" } }));
  instance.killNow();
  await untilGone(instance);
  expect(await ports.identity.marked(runMark(dir))).toEqual([]);
});

test("a flood of output fills neither disk nor memory, even without an agent and with a client that reads nothing", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(
    dir,
    "read -r line; yes 'a line of the flood that is long enough to be a line' | head -c 128M; echo DONE; read -r line",
  );
  const lazy = await attachTo(dir);
  instance.close();
  lazy.pause();
  lazy.type("go\r");
  await vi.waitFor(() => expect(endOf(join(dir, "log"))).toContain("DONE\n"), {
    timeout: 2 * MINUTE,
    interval: 200,
  });
  const logs = readdirSync(dir).filter((name) => name.startsWith("log"));
  expect(logs.sort()).toEqual(["log", "log.1", "log.2", "log.3"]);
  const bytes = logs.reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
  expect(bytes).toBeLessThan(80 * 1024 ** 2);
  const rss = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pidIn(dir)}/status`, "utf8"));
  expect(Number(rss?.[1])).toBeLessThan(160 * 1024);
  // The client missed most of the output, and receives the last lines.
  lazy.resume();
  await until(() => expect(lazy.output).toContain("DONE"));
  expect(lazy.output.length).toBeLessThan(16 * 1024 ** 2);
  const left = await agent().adopt(dir);
  left?.killNow();
  expect(left && (await untilGone(left))).toEqual({ signal: "SIGKILL" });
});

test("input for a program that reads nothing is buffered up to a limit, without using CPU", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(dir, "stty raw -echo; echo ready; exec sleep 100");
  const attached = await attachTo(dir);
  await until(() => expect(attached.output).toContain("ready"));
  for (let sent = 0; sent < 4; sent += 1) attached.type("x".repeat(1 << 19));
  await until(() => expect(attached.output).toContain("\u0007"));
  instance.killNow();
  await untilGone(instance);
});

test("a program that queries the cursor position gets an answer even if no client is attached", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const instance = await agent().open(
    dir,
    String.raw`stty raw -echo; printf '\033[6n'; answer=$(dd bs=1 count=6 2>/dev/null | od -An -c); stty sane; echo "got$answer"`,
  );
  expect(await untilGone(instance)).toEqual({ code: 0 });
  expect(logOf(dir)).toMatch(/got\s+033\s+\[\s+1\s+;\s+1\s+R/);
});

test("a terminal works in a folder with a path longer than a socket address; the environment is that of the service and is not written to a file", async () => {
  await using folder = runFolder();
  const dir = makeFolder(join(folder.dir(), "a".repeat(120)));
  const instance = await agent().open(dir, 'echo "$SECRET $NODE_OPTIONS"; read -r line', {
    SECRET: "s3cret",
    NODE_OPTIONS: "--bogus",
  });
  await until(() => expect(logOf(dir)).toContain("s3cret --bogus\n"));
  await until(() => expect(statSync(join(dir, "terminal.sock")).mode & 0o777).toBe(0o600));
  expect(existsSync(join(dir, "terminal.json"))).toBe(false);
  instance.killNow();
  await untilGone(instance);
});
