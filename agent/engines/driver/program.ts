/** Finds the programs of engines on this machine, and runs them for a short answer in bounded time. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { constants } from "node:fs";
import { access, realpath, stat } from "node:fs/promises";
import { delimiter, dirname, isAbsolute, join } from "node:path";
import type { Readable } from "node:stream";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { truncate } from "../../../src/util/text.ts";

const ANSWER_TIMEOUT_MS = 5_000;
/** For the first run of an installed file. A timeout is retried once with more time: after an upgrade macOS checks the file first. */
const FIRST_ANSWER_TIMEOUTS_MS = [10_000, 30_000];

const MAX_TEXT = 4 << 20;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export type ProgramOutput = { readonly text: string } | { readonly failed: string; readonly isLate: boolean };

export interface ProgramOptions {
  /** Tried in order before PATH. */
  readonly paths: readonly string[];
  /** The environment that the program and its engines get; PATH is searched. */
  readonly env: Readonly<Record<string, string>>;
  /** Timeouts for the first run of an installed file, one attempt per entry. */
  readonly firstAnswerTimeoutsMs?: readonly number[];
  /** The account that root runs the program as; absent: that of this process. */
  readonly as?: RunAs | undefined;
}

interface RunAs {
  readonly uid: number;
  readonly gid: number;
}

/**
 * The program's path, and a key that changes with the file. A configured path that is not executable is an error; on PATH it
 * is skipped.
 */
export async function locateProgram(
  name: string,
  { paths, env }: ProgramOptions,
): Promise<{ readonly path: string; readonly key: string } | undefined> {
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  for (const path of [...paths, ...folders.map((folder) => join(folder, name))]) {
    const file = await stat(path).catch(() => undefined);
    if (file?.isFile() !== true) continue;
    if (await isExecutable(path))
      return { path, key: `${path} ${file.dev} ${file.ino} ${file.size} ${file.ctimeMs}` };
    if (paths.includes(path)) throw new MetalbridgeError("RuntimeNotExecutable", `${path} is not executable`);
  }
  return undefined;
}

/**
 * Path of a benchmark program in the folder of the engine's program, in `folders` relative to it, or on PATH if `env` is given.
 * Throws `BenchmarkToolMissing`.
 */
export async function findBeside(
  name: string,
  engine: string | undefined,
  env: ProgramOptions["env"] = {},
  folders: readonly string[] = [],
): Promise<string> {
  const engines = engine === undefined ? [] : [await realpath(engine).catch(() => engine), engine];
  const paths = engines.flatMap((path) =>
    ["", ...folders].map((folder) => join(dirname(path), folder, name)),
  );
  const found = await locateProgram(name, { paths, env });
  if (found !== undefined) return found.path;
  throw new MetalbridgeError(
    "BenchmarkToolMissing",
    `${name} is not in ${[...new Set(paths.map((path) => dirname(path)))].join(", ")}`,
  );
}

/**
 * Caches what a program prints about itself until its path leads to another file, or to one that was written since. A
 * cached answer costs a few calls of stat.
 */
export function cacheByFile<T>(
  locate: () => Promise<{ readonly path: string; readonly key: string } | undefined>,
  read: (path: string) => Promise<T>,
): () => Promise<T | undefined> {
  let cached: { readonly key: string; readonly answer: Promise<T> } | undefined;
  return async () => {
    const file = await locate();
    if (file === undefined) return undefined;
    if (cached?.key === file.key) return cached.answer;
    const reading = { key: file.key, answer: read(file.path) };
    cached = reading;
    reading.answer.catch(() => {
      if (cached === reading) cached = undefined;
    });
    return reading.answer;
  };
}

export function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/**
 * Returns both outputs together: `--version` prints on one, `--help` on the other. The program gets its own session: with
 * root's terminal, a program of another account could type into root's shell.
 */
export function runProgram(
  path: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  {
    timeoutMs = ANSWER_TIMEOUT_MS,
    as,
  }: { readonly timeoutMs?: number; readonly as?: RunAs | undefined } = {},
): Promise<ProgramOutput> {
  return new Promise((resolve) => {
    // The other account may have no access to the current folder.
    const ids = as === undefined ? {} : { ...as, cwd: "/" };
    let started: Started | undefined;
    // Registered before the start: a signal without a listener ends this process and leaves the program running.
    const unregister = endWithProcess(() => started && killGroup(started));
    const child = spawn(path, args, { env, detached: true, stdio: ["ignore", "pipe", "pipe"], ...ids });
    started = child;
    let killed: ProgramOutput | undefined;
    const kill = (failed: string, isLate: boolean) => {
      killed ??= { failed: `${args[0]} ${failed}`, isLate };
      killGroup(child);
    };
    // The streams are undefined if no file descriptors were left for them; the event `error` follows.
    const outputs: readonly (Readable | undefined)[] = [child.stdout, child.stderr];
    const [out, err] = outputs.map(
      (stream) => stream && keepText(stream, () => kill("printed more than 4 MiB", false)),
    );
    const timer = setTimeout(() => kill(`did not answer within ${timeoutMs / 1_000} s`, true), timeoutMs);
    const finish = (exit: number | string | null | undefined, spawnError?: string) => {
      clearTimeout(timer);
      unregister();
      const text = err?.() || spawnError || out?.() || "";
      const reason = truncate(text.trim().split("\n")[0] ?? "", 300);
      const failed = { failed: `${args[0]} ended with ${exit}: ${reason}`, isLate: false };
      resolve(killed ?? (exit === 0 ? { text: `${out?.()}\n${err?.()}` } : failed));
    };
    child.once("error", (error: NodeJS.ErrnoException) => finish(error.code, error.message));
    child.once("close", (code, signal) => finish(signal ?? code));
  });
}

function keepText(stream: Readable, tooLong: () => void): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    if (text.length > MAX_TEXT) tooLong();
  });
  return () => text;
}

type Started = ChildProcessByStdio<null, Readable, Readable>;

function killGroup({ pid, stdout, stderr }: Started): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group has just exited.
  }
  // A process that has left the group may still hold the streams open.
  for (const stream of [stdout, stderr]) stream.destroy();
}

/** Calls `end` before this process exits: Ctrl-C and a closed terminal signal only this process. Returns a function that removes the listeners. */
function endWithProcess(end: () => void): () => void {
  const listeners = SIGNALS.map((signal) => {
    const listener = () => {
      end();
      // Without another listener the signal keeps its usual effect.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    };
    process.once(signal, listener);
    return () => process.removeListener(signal, listener);
  });
  process.once("exit", end);
  return () => {
    for (const remove of listeners) remove();
    process.removeListener("exit", end);
  };
}

/** Runs `--version`, which may be the first run since the file was installed. */
export async function runVersionCommand(
  path: string,
  { env, firstAnswerTimeoutsMs, as }: Omit<ProgramOptions, "paths">,
): Promise<ProgramOutput> {
  let answer: ProgramOutput = { failed: "--version was not tried", isLate: true };
  for (const timeoutMs of firstAnswerTimeoutsMs ?? FIRST_ANSWER_TIMEOUTS_MS) {
    answer = await runProgram(path, ["--version"], env, { timeoutMs, as });
    if ("text" in answer || !answer.isLate) break;
  }
  return answer;
}
