/** Programs of engines on this machine: found by path, and asked something, in bounded time. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import type { Readable } from "node:stream";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { truncate } from "../../../src/util/text.ts";

const ANSWER_TIMEOUT_MS = 5_000;
/** For the first run of an installed file, once more where it times out: after an upgrade macOS checks the file first. */
const FIRST_ANSWER_TIMEOUTS_MS = [10_000, 30_000];

const MAX_TEXT = 4 << 20;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export type ProgramOutput = { readonly text: string } | { readonly failed: string; readonly isLate: boolean };

export interface ProgramOptions {
  /** Tried in order before PATH. */
  readonly paths: readonly string[];
  /** The environment that the program and its engines get; PATH is searched. */
  readonly env: Readonly<Record<string, string>>;
  /** How long the first run of an installed file may take, one try per entry. */
  readonly firstAnswerTimeoutsMs?: readonly number[];
  /** The account that root runs the program as; absent: that of this process. */
  readonly as?: RunAs | undefined;
}

interface RunAs {
  readonly uid: number;
  readonly gid: number;
}

/** Its path, and what changes with the file. A configured path that is not executable is an error; on PATH it is skipped. */
export async function locateProgram(
  name: string,
  { paths, env }: ProgramOptions,
): Promise<{ readonly path: string; readonly key: string } | undefined> {
  const inPath = (env.PATH ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  for (const path of [...paths, ...inPath.map((folder) => join(folder, name))]) {
    const file = await stat(path).catch(() => undefined);
    if (file?.isFile() !== true) continue;
    if (await isExecutable(path))
      return { path, key: `${path} ${file.dev} ${file.ino} ${file.size} ${file.ctimeMs}` };
    if (paths.includes(path)) throw new MetalbridgeError("RuntimeNotExecutable", `${path} is not executable`);
  }
  return undefined;
}

/**
 * What a program says of itself, asked again only where its path leads to another file, or one that was written since.
 * Asked often, it costs a few calls of stat.
 */
export function cacheByFile<T>(
  locate: () => Promise<{ readonly path: string; readonly key: string } | undefined>,
  read: (path: string) => Promise<T>,
): () => Promise<T | undefined> {
  let known: { readonly key: string; readonly answer: Promise<T> } | undefined;
  return async () => {
    const file = await locate();
    if (file === undefined) return undefined;
    if (known?.key === file.key) return known.answer;
    const mine = { key: file.key, answer: read(file.path) };
    known = mine;
    mine.answer.catch(() => {
      if (known === mine) known = undefined;
    });
    return mine.answer;
  };
}

function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/**
 * Both outputs together: `--version` prints on one, `--help` on the other. The program gets its own session: with root's
 * terminal, a program of another account could type into root's shell.
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
    // Before the start: until a signal has a listener, it ends this process and not the program.
    const forget = endWithProcess(() => started && killGroup(started));
    const child = spawn(path, args, { env, detached: true, stdio: ["ignore", "pipe", "pipe"], ...ids });
    started = child;
    let cutOff: ProgramOutput | undefined;
    const cut = (failed: string, isLate: boolean) => {
      cutOff ??= { failed: `${args[0]} ${failed}`, isLate };
      killGroup(child);
    };
    // Undefined if no descriptors were left for them; the event `error` follows.
    const outputs: readonly (Readable | undefined)[] = [child.stdout, child.stderr];
    const [out, err] = outputs.map(
      (stream) => stream && keepText(stream, () => cut("printed more than 4 MiB", false)),
    );
    const timer = setTimeout(() => cut(`did not answer within ${timeoutMs / 1_000} s`, true), timeoutMs);
    const finish = (end: number | string | null | undefined, reason?: string) => {
      clearTimeout(timer);
      forget();
      const why = firstLine(err?.() || reason || out?.() || "");
      const failed = { failed: `${args[0]} ended with ${end}: ${why}`, isLate: false };
      resolve(cutOff ?? (end === 0 ? { text: `${out?.()}\n${err?.()}` } : failed));
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
    // It has just exited.
  }
  // A process that has left the group may still hold them open.
  for (const stream of [stdout, stderr]) stream.destroy();
}

/** Calls `end` before this process exits: Ctrl-C and a closed terminal signal only this process. Returns a function that undoes this. */
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

/** What it prints on its first run since it was installed. */
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

function firstLine(text: string): string {
  return truncate(text.trim().split("\n")[0] ?? "", 300);
}
