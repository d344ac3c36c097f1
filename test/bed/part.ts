/** Controller and agent as the processes that users run: the bundle, by its command line. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import path from "node:path";
import { packageRoot } from "../../local/package-root.ts";

export interface Part extends AsyncDisposable {
  readonly pid: number;
  readonly logFile: string;
  /** Lines of its JSON log so far. */
  readonly log: () => string;
  readonly isRunning: () => boolean;
  /** Undefined while it runs; null where a signal terminated it. */
  readonly exitCode: () => number | null | undefined;
  /** Resolves once it has exited. */
  readonly kill: (signal: NodeJS.Signals) => Promise<void>;
}

/** The program of this checkout. */
const PROGRAM = path.join(packageRoot(), "cli", "metalbridge.mjs");

/**
 * `metalbridge <verb> <args>` with its log in `logFile`; disposal ends it, engines it started run on. `launcher` is what
 * runs the program: Node, or something that becomes Node in another place.
 */
export function startPart(
  args: readonly string[],
  logFile: string,
  program = PROGRAM,
  launcher: readonly string[] = [process.execPath],
): Part {
  mkdirSync(path.dirname(logFile), { recursive: true });
  const log = openSync(logFile, "a");
  const [command = process.execPath, ...prefix] = launcher;
  const child = spawn(command, [...prefix, program, ...args], {
    // Its other end goes with this process, however that ends.
    stdio: ["ignore", log, log, "pipe"],
    detached: true,
    env: { ...process.env, ...lifeline() },
  });
  closeSync(log);
  if (child.pid === undefined) throw new Error(`metalbridge ${args.join(" ")} could not be started`);
  const kill = (signal: NodeJS.Signals) => end(child, signal);
  return {
    pid: child.pid,
    logFile,
    log: () => readFileSync(logFile, "utf8"),
    isRunning: () => isRunning(child),
    exitCode: () => (isRunning(child) ? undefined : child.exitCode),
    kill,
    [Symbol.asyncDispose]: async () => {
      await kill("SIGTERM");
    },
  };
}

/** A program that starts itself again with memory-saving flags would lose the pipe; `npm test` starts all without them. */
function lifeline(): NodeJS.ProcessEnv {
  const isHeld = process.env.METALBRIDGE_IS_SMALL !== undefined;
  return isHeld ? { METALBRIDGE_LIFELINE: `3:${process.pid}` } : {};
}

const GRACE_MS = 60_000;

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!isRunning(child)) return;
  const ended = once(child, "exit");
  child.kill(signal);
  const late = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
  await ended;
  clearTimeout(late);
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}
