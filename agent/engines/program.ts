/** Programs of engines on this machine: found by path, and asked something, in bounded time. */
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { truncate } from "../../src/text.ts";

const ANSWER_TIMEOUT_MS = 5_000;
/** For the first run of an installed file, once more where it times out: after an upgrade macOS checks the file first. */
const FIRST_ANSWER_TIMEOUTS_MS = [10_000, 30_000];

export type Output = { readonly text: string } | { readonly failed: string; readonly isLate: boolean };

export interface ProgramOptions {
  /** Tried in order before PATH. */
  readonly paths: readonly string[];
  /** The environment that the program and its engines get; PATH is searched. */
  readonly env: Readonly<Record<string, string>>;
  /** How long the first run of an installed file may take, one try per entry. */
  readonly firstAnswerTimeoutsMs?: readonly number[];
  /** With whose rights root asks the program; absent: those of this process. */
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
export function rememberByFile<T>(
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

/** Both outputs together: `--version` prints on one, `--help` on the other. */
export function runProgram(
  path: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  {
    timeoutMs = ANSWER_TIMEOUT_MS,
    as,
  }: { readonly timeoutMs?: number; readonly as?: RunAs | undefined } = {},
): Promise<Output> {
  return new Promise((resolve) => {
    // The current folder may be closed to another account.
    const ids = as === undefined ? {} : { ...as, cwd: "/" };
    const options = { env, timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: 4 << 20, ...ids } as const;
    const child = execFile(path, args, options, (error, out, err) => {
      if (error === null) resolve({ text: `${out}\n${err}` });
      else if (error.killed)
        resolve({ failed: `${args[0]} did not answer within ${timeoutMs / 1000} s`, isLate: true });
      else
        resolve({
          failed: `${args[0]} ended with ${error.signal ?? error.code}: ${firstLine(err || error.message)}`,
          isLate: false,
        });
    });
    child.stdin?.end();
  });
}

/** What it prints on its first run since it was installed. */
export async function readVersion(
  path: string,
  { env, firstAnswerTimeoutsMs, as }: Omit<ProgramOptions, "paths">,
): Promise<Output> {
  let answer: Output = { failed: "--version was not tried", isLate: true };
  for (const timeoutMs of firstAnswerTimeoutsMs ?? FIRST_ANSWER_TIMEOUTS_MS) {
    answer = await runProgram(path, ["--version"], env, { timeoutMs, as });
    if ("text" in answer || !answer.isLate) break;
  }
  return answer;
}

function firstLine(text: string): string {
  return truncate(text.trim().split("\n")[0] ?? "", 300);
}
