/** The terminal's process: `node main.ts DIR`, under the shim of an engine. It exits with the status of the program in its terminal. */
import { writeSync } from "node:fs";
import { constants } from "node:os";
import type { IPty } from "node-pty";
import { rotateLog } from "../../../../src/supervise/log-rotation.ts";
import { TERMINAL_SOCKET } from "../../../../src/supervise/run-directory.ts";
import { Attachers } from "./attachers.ts";
import type { ProgramExit, Size } from "./frames.ts";
import { Input } from "./input.ts";
import { consumeLaunch, PROGRAM_SCRIPT } from "./launch.ts";
import { ScreenLog } from "./screen-log.ts";

const LOG_FD = 1;
const FIRST_SIZE: Size = { columns: 80, rows: 24 };
/** Output that a client receives when it attaches. */
const MAX_RECENT = 16 * 1024;
/** After this long without output an unfinished line is logged. */
const IDLE_MS = 1_000;
const ROTATION_CHECK_BYTES = 1 << 20;
/** Time for attached clients to receive the exit. */
const FAREWELL_MS = 1_000;
const FORWARDED_SIGNALS = ["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP"] as const;

const [dir = ""] = process.argv.slice(2);
// The path of a socket must not exceed 103 bytes, so it is relative to this folder.
process.chdir(dir);
const { argv, env, logLimits } = consumeLaunch(dir);
const { log, recent, reportProblem } = openLog();
const program = await spawnProgram();
// node-pty exposes the master's descriptor, but not in its interface.
const input = new Input((program as IPty & { readonly fd: number }).fd);
const attachers = new Attachers(FIRST_SIZE, {
  recent: () => {
    log.flush();
    return recent();
  },
  type: (bytes) => input.write(bytes),
  resize: ({ columns, rows }) => {
    try {
      program.resize(columns, rows);
    } catch {
      // The program has just exited.
    }
  },
});

let idleTimer: NodeJS.Timeout | undefined;
program.onData((output) => {
  attachers.print(log.add(output));
  clearTimeout(idleTimer);
  if (log.hasUnlogged) idleTimer = setTimeout(() => log.flush(), IDLE_MS).unref();
});
program.onExit(({ exitCode, signal = 0 }) => {
  input.close();
  const name = Object.entries(constants.signals).find(([, number]) => number === signal)?.[0];
  const exit: ProgramExit = name === undefined ? { code: exitCode } : { signal: name };
  log.flush();
  // A shell, like the shim, reports a signal as 128 + number; node-pty's exit code is 0 for a signal.
  const exitProcess = () => process.exit(signal === 0 ? exitCode : 128 + signal);
  setTimeout(exitProcess, FAREWELL_MS);
  void attachers.end(exit).then(exitProcess);
});
await attachers.listen(TERMINAL_SOCKET).catch((error: Error) => {
  reportProblem(`cannot attach to this terminal: ${error.message}`);
});

/** Imports node-pty late, so that the log reports a system for which it was not built. */
async function spawnProgram(): Promise<IPty> {
  try {
    const { spawn } = await import("node-pty");
    const options = {
      name: env.TERM ?? "xterm-256color",
      cols: FIRST_SIZE.columns,
      rows: FIRST_SIZE.rows,
      env,
    };
    // Before the program starts: a signal without a handler would terminate this process, and the program with a hang-up.
    for (const signal of FORWARDED_SIGNALS) process.on(signal, () => forward(signal));
    return spawn("/bin/sh", ["-c", PROGRAM_SCRIPT, "sh", dir, ...argv], options);
  } catch (error) {
    reportProblem(`cannot open a terminal: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  }
}

/** Forwards a signal to the program's process group, which the program leads because it leads the terminal's session. */
function forward(signal: NodeJS.Signals): void {
  try {
    process.kill(-program.pid, signal);
  } catch {
    // The program has just exited.
  }
}

/** This process rotates the log itself: no agent may be running while a program prints endlessly. */
function openLog() {
  let sinceCheck = ROTATION_CHECK_BYTES;
  let isFull = false;
  let recent = "";
  const write = (text: string): void => {
    recent = (recent + text).slice(-MAX_RECENT);
    try {
      if (sinceCheck >= ROTATION_CHECK_BYTES) {
        sinceCheck = 0;
        rotateLog(dir, logLimits);
      }
      sinceCheck += writeSync(
        LOG_FD,
        isFull ? `--- metalbridge: output before this could not be logged\n${text}` : text,
      );
      isFull = false;
    } catch {
      isFull = true;
    }
  };
  return {
    log: new ScreenLog(write),
    recent: () => recent.slice(recent.length < MAX_RECENT ? 0 : recent.indexOf("\n") + 1),
    reportProblem: (what: string) => write(`--- metalbridge: ${what}\n`),
  };
}
