/** `metalbridge attach` in a real terminal, to programs in terminals of their own. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { createProcessInstances } from "../agent/instances/process/process-instance.ts";
import { processPorts, runFolder, shell } from "../src/supervise/fixtures/run.ts";
import { createSupervisor } from "../src/supervise/supervisor.ts";
import { until } from "../test/bed/until.ts";
import { runInTerminal } from "../test/cli/in-terminal.ts";
import { runVerb } from "../test/cli/program.ts";

/** A state folder with a replica "chat-0-abc"; `start` runs a script in its terminal. */
function stateFolder() {
  const folder = runFolder();
  const dir = folder.dir(path.join("engines", "u1"));
  mkdirSync(path.join(folder.root, "desired"));
  const desired = {
    metadata: { name: "chat-0-abc", namespace: "team" },
    spec: { template: { serviceName: "chat" } },
  };
  writeFileSync(path.join(folder.root, "desired", "u1.json"), JSON.stringify(desired));
  const ports = processPorts();
  const instances = createProcessInstances(createSupervisor(ports), {
    ...ports,
    footprintBytes: async () => undefined,
  });
  return {
    dir,
    start: async (script: string, tty = true) => {
      const instance = await instances.open(
        { dir, log: ports.log, onChange: () => {} },
        { ...shell(script), tty, target: { host: "127.0.0.1", port: 1 } },
      );
      if (tty) await until(() => expect(existsSync(path.join(dir, "terminal.sock"))).toBe(true));
      return instance;
    },
    args: (...more: string[]) => ["attach", "chat", "--state-dir", folder.root, ...more],
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  };
}

test("typed, echoed, resized, detached, attached again with the last lines, until the program exits", async () => {
  await using state = stateFolder();
  await state.start(
    `printf 'name? '; read -r name; echo "hello $name"; while read -r line; do [ "$line" = end ] && exit 7; stty size; done`,
  );
  {
    using one = runInTerminal(state.args(), { cols: 100, rows: 30 });
    await one.shows("attached to team/chat-0-abc; ctrl-] detaches");
    await one.shows(/name\? $/);
    one.pty.write("Ada\r");
    await one.shows("name? Ada\r\nhello Ada\r\n");
    one.pty.write("?\r");
    await one.shows("30 100");
    one.pty.resize(120, 33);
    await until(async () => {
      one.pty.write("?\r");
      expect(one.output()).toContain("33 120");
    });
    one.pty.write("left over\u001d");
    await one.shows("detached from team/chat-0-abc; its program keeps running");
    expect(await one.exitCode).toBe(0);
  }
  using again = runInTerminal(state.args("--detach-keys", "ctrl-p,ctrl-q"));
  await again.shows(/name\? Ada[\s\S]*hello Ada[\s\S]*30 100[\s\S]*33 120/);
  again.pty.write("\u0010");
  again.pty.write("\u0003");
  await again.shows("the program of team/chat-0-abc was ended by SIGINT");
  expect(await again.exitCode).toBe(0);
});

test("read-only shows everything, passes nothing on, and leaves the size alone; others work beside it", async () => {
  await using state = stateFolder();
  await state.start(`while read -r line; do echo "<$line>"; [ "$line" = end ] && exit 7; stty size; done`);
  using reader = runInTerminal(state.args("--read-only"), { cols: 40, rows: 10 });
  await reader.shows("(read-only)");
  using writer = runInTerminal(state.args(), { cols: 90, rows: 30 });
  await writer.shows("attached");
  reader.pty.write("no\r");
  writer.pty.write("yes\r");
  await reader.shows("<yes>\r\n30 90");
  writer.pty.write("end\r");
  for (const one of [reader, writer]) {
    await one.shows("the program of team/chat-0-abc exited with code 7");
    expect(one.output()).not.toContain("<no>");
  }
});

test("a terminal that is closed, or a command that is killed, leaves the program running", async () => {
  await using state = stateFolder();
  const instance = await state.start("echo ready; read -r line");
  for (const signal of ["SIGTERM", "SIGHUP", "SIGKILL"]) {
    using one = runInTerminal(state.args());
    await one.shows("ready");
    one.pty.kill(signal);
    await one.exitCode;
  }
  expect(instance.state()).toMatchObject({ at: "running" });
});

test("the terminal is put back in order when the program is killed in the middle", async () => {
  await using state = stateFolder();
  const instance = await state.start(String.raw`printf '\033[?1049h\033[?1000hfull screen'; read -r line`);
  using one = runInTerminal(state.args());
  await one.shows("full screen");
  one.clear();
  instance.killNow();
  await one.shows("the terminal of team/chat-0-abc has closed");
  expect(one.output()).toContain("\u001b[?1047l");
  expect(one.output()).toMatch(/\[\?[\d;]*1000[\d;]*l/);
});

test("what cannot be attached to is refused with the reason", async () => {
  await using state = stateFolder();
  expect(await runVerb(state.args())).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("NotATerminal: standard input is not a terminal"),
  });
  const refused = async (reason: string) => {
    using one = runInTerminal(state.args());
    await one.shows(reason);
    expect(await one.exitCode).toBe(1);
  };
  await refused("TerminalNotFound: team/chat-0-abc has no terminal: its program is not running");
  const plain = await state.start("sleep 100", false);
  await refused("has no terminal: its service does not set spec.tty: true");
  plain.killNow();
  await until(() => expect(plain.state().at).toBe("gone"));
  const ended = await state.start("exit 0");
  await until(() => expect(ended.state().at).toBe("gone"));
  expect(readFileSync(path.join(state.dir, "exit"), "utf8")).toBe("0\n");
  await refused("has no terminal: its program is not running");
  using wrong = runInTerminal(state.args("--detach-keys", "escape"));
  await wrong.shows("It must be keys such as ctrl-]");
  expect(await wrong.exitCode).toBe(2);
});
