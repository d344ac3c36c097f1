/** Parts as child processes of a verb, each in a separate session. Closing standard input stops them. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { backoffMs } from "../src/util/backoff.ts";
import { limitLogSize } from "./log-size.ts";

export interface ChildProgram {
  readonly name: string;
  readonly logFile: string;
  /** Offset in the log file at which this run begins, in bytes. */
  readonly logFrom: number;
  /** Resolves once, with a sentence about the exit. */
  readonly ended: Promise<string>;
  /** A signal has stopped it: it did not exit of its own accord. */
  readonly isKilled: () => boolean;
  /** Closes standard input, which asks for a graceful stop; TERM after `graceMs`, KILL some seconds later. */
  readonly stop: (graceMs: number) => Promise<void>;
  /** Starts the same process again. */
  readonly restart: () => ChildProgram;
}

/**
 * Starts `metalbridge <args>` with output to `logFile`, whose size is limited.
 * In a separate session, Ctrl-C and hang-up of the terminal do not reach the child, so the verb decides the order of stopping.
 * The pipe on standard input stops the child even if the verb is killed.
 */
export function startChild(name: string, args: readonly string[], logFile: string): ChildProgram {
  mkdirSync(dirname(logFile), { recursive: true });
  const over = new AbortController();
  limitLogSize(logFile, over.signal);
  const log = openSync(logFile, "a");
  const logFrom = fstatSync(log).size;
  const [entry] = process.argv.slice(1);
  if (entry === undefined) throw new Error("the verb does not know its own program file");
  const child = spawn(process.execPath, [...process.execArgv, entry, ...args], {
    stdio: ["pipe", log, log],
    detached: true,
  });
  closeSync(log);
  const ended = new Promise<string>((settle) => {
    child.once("error", (error) => settle(`${name} did not start: ${error.message}`));
    child.once("exit", (code, signal) => settle(`${name} ended with ${signal ?? `exit code ${code}`}`));
  });
  void ended.then(() => over.abort());
  child.stdin?.on("error", () => {}); // `ended` reports a child that has already exited
  return {
    name,
    logFile,
    logFrom,
    ended,
    isKilled: () => child.signalCode !== null,
    stop: (graceMs) => stopChild(child, ended, graceMs),
    restart: () => startChild(name, args, logFile),
  };
}

/** Is started again automatically. */
export type KeptProgram = Omit<ChildProgram, "restart" | "isKilled">;

/** A part that has exited so often, and has never run for a minute, will not come right by another start. */
const MAX_EXITS = 3;
const MINUTE_MS = 60_000;
/** Those before are forgotten. */
const EXITS_MS = 5 * MINUTE_MS;
/** The first end, and the first one after a minute, restarts it at once. */
const RESTARTS = { firstMs: 250, capMs: 10_000 };

/**
 * Like `startChild`, and starts it again whenever it ends. A part that exits again and again from its first start on is left:
 * then `ended` resolves. `print` gets a line for people.
 */
export function keepChild(
  name: string,
  args: readonly string[],
  logFile: string,
  print: (line: string) => void,
): KeptProgram {
  let child = startChild(name, args, logFile);
  const stopping = new AbortController();
  const { signal } = stopping;
  const keep = async (): Promise<string> => {
    for (let ends = NO_ENDS; ; ) {
      const startedMs = performance.now();
      const exit = await child.ended;
      if (signal.aborted) return exit;
      ends = countEnd(ends, { startedMs, endedMs: performance.now(), isKilled: child.isKilled() });
      const waitMs = restartMs(ends);
      const next = waitMs === undefined ? " for the third time in 5 minutes, and is not" : ", and is";
      print(`${exit}${next} started again; its log: ${logFile}`);
      if (waitMs === undefined || !(await paused(waitMs, signal))) return exit;
      child = startChild(name, args, logFile);
    }
  };
  return {
    name,
    logFile,
    get logFrom() {
      return child.logFrom;
    },
    ended: keep(),
    stop: async (graceMs) => {
      stopping.abort();
      await child.stop(graceMs);
    },
  };
}

interface Ends {
  /** Without a minute between two. */
  readonly inARow: number;
  /** Monotonic times of the latest ones of its own accord. */
  readonly exits: readonly number[];
  /** For a minute. */
  readonly hasRun: boolean;
}

export const NO_ENDS: Ends = { inARow: 0, exits: [], hasRun: false };

interface End {
  readonly startedMs: number;
  readonly endedMs: number;
  readonly isKilled: boolean;
}

export function countEnd({ inARow, exits, hasRun }: Ends, { startedMs, endedMs, isKilled }: End): Ends {
  const isLong = endedMs - startedMs > MINUTE_MS;
  const recent = exits.filter((at) => endedMs - at <= EXITS_MS);
  return {
    inARow: isLong ? 1 : inARow + 1,
    exits: isKilled ? recent : [...recent, endedMs],
    hasRun: hasRun || isLong,
  };
}

/** Undefined if the part is left. */
export function restartMs({ exits, hasRun, inARow }: Ends): number | undefined {
  if (exits.length >= MAX_EXITS && !hasRun) return undefined;
  return inARow === 1 ? 0 : backoffMs(inARow - 1, RESTARTS);
}

/** False if the signal was aborted meanwhile. */
async function paused(ms: number, signal: AbortSignal): Promise<boolean> {
  await pause(ms, undefined, { signal }).catch(() => {});
  return !signal.aborted;
}

/** The last lines of the log from this run, for an error message. */
export function logTail(child: Pick<ChildProgram, "logFile" | "logFrom">, lines: number): string {
  const log = readFileSync(child.logFile);
  // A log that has become too large continues in an empty file.
  return log
    .subarray(log.length < child.logFrom ? 0 : child.logFrom)
    .toString("utf8")
    .trimEnd()
    .split("\n")
    .slice(-lines)
    .join("\n");
}

/** Time for an agent to stop its engines after TERM, before KILL. */
const LAST_GRACE_MS = 5_000;

async function stopChild(child: ChildProcess, ended: Promise<string>, graceMs: number): Promise<void> {
  child.stdin?.end();
  if (await endsWithin(ended, graceMs)) return;
  signalChild(child, "SIGTERM");
  if (await endsWithin(ended, LAST_GRACE_MS)) return;
  signalChild(child, "SIGKILL");
  await ended;
}

function endsWithin(ended: Promise<string>, timeoutMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timedOut = new Promise<false>((settle) => {
    timer = setTimeout(() => settle(false), timeoutMs);
  });
  return Promise.race([ended.then(() => true as const), timedOut]).finally(() => clearTimeout(timer));
}

function signalChild(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.exitCode === null && child.signalCode === null) child.kill(signal);
}
