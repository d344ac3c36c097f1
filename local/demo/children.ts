/** Controller and agent as children of the demo: each in a session of its own, ended by closing its standard input. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";

export interface DemoProcess {
  readonly name: string;
  readonly logFile: string;
  /** Where this run begins in it, in bytes. */
  readonly logFrom: number;
  /** Settles once, with a sentence on how it ended. */
  readonly ended: Promise<string>;
  /** Closes standard input, which asks for a graceful stop; TERM after `graceMs`, KILL some seconds later. */
  readonly stop: (graceMs: number) => Promise<void>;
  /** Starts the same once more. */
  readonly again: () => DemoProcess;
}

/**
 * Starts `metalbridge <args>`; output goes to `logFile`.
 * The session of its own keeps a terminal's Ctrl-C and hang-up from reaching it before the demo has decided the order
 * of stopping; the pipe on standard input ends it even when the demo itself is killed.
 */
export function startChild(name: string, args: readonly string[], logFile: string): DemoProcess {
  mkdirSync(dirname(logFile), { recursive: true });
  const log = openSync(logFile, "a");
  const logFrom = fstatSync(log).size;
  const [entry] = process.argv.slice(1);
  if (entry === undefined) throw new Error("the demo does not know its own program file");
  const child = spawn(process.execPath, [...process.execArgv, entry, ...args], {
    stdio: ["pipe", log, log],
    detached: true,
  });
  closeSync(log);
  const ended = new Promise<string>((settle) => {
    child.once("error", (error) => settle(`${name} did not start: ${error.message}`));
    child.once("exit", (code, signal) => settle(`${name} ended with ${signal ?? `exit code ${code}`}`));
  });
  child.stdin?.on("error", () => {}); // a child that is already gone is reported by `ended`
  return {
    name,
    logFile,
    logFrom,
    ended,
    stop: (graceMs) => stopChild(child, ended, graceMs),
    again: () => startChild(name, args, logFile),
  };
}

/** The last lines of a child's log that are of this run, for an error message. */
export function logTail(child: DemoProcess, lines: number): string {
  return readFileSync(child.logFile)
    .subarray(child.logFrom)
    .toString("utf8")
    .trimEnd()
    .split("\n")
    .slice(-lines)
    .join("\n");
}

/** An agent still has to end its engines: TERM, TERM, KILL. */
const LAST_GRACE_MS = 5_000;

async function stopChild(child: ChildProcess, ended: Promise<string>, graceMs: number): Promise<void> {
  child.stdin?.end();
  if (await endsWithin(ended, graceMs)) return;
  signalChild(child, "SIGTERM");
  if (await endsWithin(ended, LAST_GRACE_MS)) return;
  signalChild(child, "SIGKILL");
  await ended;
}

async function endsWithin(ended: Promise<string>, timeoutMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((settle) => {
    timer = setTimeout(() => settle(false), timeoutMs);
  });
  const inTime = await Promise.race([ended.then(() => true as const), late]);
  clearTimeout(timer);
  return inTime;
}

function signalChild(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.exitCode === null && child.signalCode === null) child.kill(signal);
}
