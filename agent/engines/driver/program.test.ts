/** Programs of engines run without the user's terminal, and never outlive the process that runs them. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { runProgram } from "./program.ts";

const env = { PATH: process.env.PATH ?? "" };

/** `text` is a shell script. `endless` writes its pid and its child's, and ignores TERM, HUP and INT. */
async function writeProgram(text?: string) {
  const folder = await temporaryFolder();
  const [program, pids] = [path.join(folder.path, "engine"), path.join(folder.path, "pids")];
  const endless = `trap "" TERM HUP INT\nsleep 1000 &\necho $$ $! > ${pids}.new\nmv ${pids}.new ${pids}\nwait`;
  writeFileSync(program, `#!/bin/sh\n${text ?? endless}\n`, { mode: 0o755 });
  const areGone = () =>
    vi.waitFor(
      () => {
        for (const pid of readFileSync(pids, "utf8").trim().split(" ")) expect(isRunning(pid)).toBe(false);
      },
      { timeout: 20_000 },
    );
  return { program, pids, areGone, [Symbol.asyncDispose]: folder[Symbol.asyncDispose] };
}

/** False for a zombie. */
function isRunning(pid: string): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

test("a program runs in its own session, without a terminal to type into", async () => {
  await using engine = await writeProgram("cat /proc/$$/stat; echo said >&2");
  const answer = await runProgram(engine.program, ["--version"], env);
  const [, pid, session] =
    /^(\d+) .*\) \S \d+ \d+ (\d+) [\s\S]*said/.exec("text" in answer ? answer.text : "") ?? [];
  expect(pid).toBeDefined();
  expect(session).toBe(pid);
});

test("a program that does not answer in time is killed, with what it has started", async () => {
  await using engine = await writeProgram();
  expect(await runProgram(engine.program, ["--help"], env, { timeoutMs: 500 })).toEqual({
    failed: "--help did not answer within 0.5 s",
    isLate: true,
  });
  await engine.areGone();
});

test("a program that prints endlessly, or cannot be run, fails with a reason", async () => {
  await using engine = await writeProgram("yes");
  expect(await runProgram(engine.program, ["--help"], env)).toMatchObject({
    failed: "--help printed more than 4 MiB",
    isLate: false,
  });
  expect(await runProgram(`${engine.program}.none`, ["--help"], env)).toMatchObject({
    failed: expect.stringMatching(/^--help ended with ENOENT: /),
  });
  await using failing = await writeProgram("echo no such option >&2; exit 2");
  expect(await runProgram(failing.program, ["--help"], env)).toMatchObject({
    failed: "--help ended with 2: no such option",
  });
});

test("a program that cannot be started because too many files are open fails with a reason", async () => {
  await using engine = await writeProgram("exit 0");
  const asker = `${engine.program}.mjs`;
  writeFileSync(
    asker,
    `import { openSync } from "node:fs";
     import { runProgram } from ${JSON.stringify(path.join(import.meta.dirname, "program.ts"))};
     try { for (;;) openSync("/dev/null"); } catch {}
     console.log(JSON.stringify(await runProgram(process.argv[2], ["--version"], {})));`,
  );
  const limited = ["-c", 'ulimit -n 64 && exec "$0" "$@"', process.execPath, asker, engine.program];
  expect(JSON.parse(execFileSync("/bin/sh", limited, { encoding: "utf8" }))).toEqual({
    failed: expect.stringMatching(/^--version ended with EMFILE: /),
    isLate: false,
  });
});

test.for(["SIGINT", "SIGHUP", "SIGTERM"] as const)(
  "%s ends the process that runs a program, and the program",
  async (signal) => {
    await using engine = await writeProgram();
    const asker = `${engine.program}.mjs`;
    const source = path.join(import.meta.dirname, "program.ts");
    writeFileSync(
      asker,
      `import { runProgram } from ${JSON.stringify(source)};
     await Promise.all([runProgram(process.argv[2], ["--help"], process.env, { timeoutMs: 60_000 }),
       runProgram("/bin/sleep", ["1000"], process.env, { timeoutMs: 60_000 })]);`,
    );
    const asking = spawn(process.execPath, [asker, engine.program], { stdio: "inherit" });
    const ended = once(asking, "exit");
    await vi.waitFor(() => expect(existsSync(engine.pids)).toBe(true), { timeout: 20_000 });
    asking.kill(signal);
    expect(await ended).toEqual([null, signal]);
    await engine.areGone();
  },
);

test("a signal that arrives while a program is being started ends the program too", async () => {
  await using engine = await writeProgram();
  const asker = `${engine.program}.mjs`;
  writeFileSync(
    asker,
    `import processes from "node:child_process";
     import { existsSync } from "node:fs";
     import { syncBuiltinESMExports } from "node:module";
     const { spawn } = processes;
     processes.spawn = (...options) => {
       const child = spawn(...options);
       while (!existsSync(process.argv[3]));
       process.kill(process.pid, "SIGTERM");
       return child;
     };
     syncBuiltinESMExports();
     const { runProgram } = await import(${JSON.stringify(path.join(import.meta.dirname, "program.ts"))});
     await runProgram(process.argv[2], ["--help"], process.env, { timeoutMs: 60_000 });`,
  );
  const asking = spawn(process.execPath, [asker, engine.program, engine.pids], { stdio: "inherit" });
  expect(await once(asking, "exit")).toEqual([null, "SIGTERM"]);
  await engine.areGone();
});
