/** Runs short commands in one long-lived shell, because forking a process of the agent's size costs several times as much. */
import { type ChildProcess, spawn } from "node:child_process";
import type { RunCommand } from "../util/command.ts";
import { createSerializer } from "../util/serializer.ts";

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 4 << 20;
/** The marker after the output of a command. It starts with a newline, because the output may not end with one. */
const END = /\nexit (\d+)\n$/;

interface CommandOutput {
  readonly code: number;
  readonly stdout: string;
}

/**
 * Like `createRunCommand`, for commands that run every few seconds, one at a time. The shell starts with the first command, and
 * again after it exited or a command timed out. It exits with `signal`, and with this process, even if that is killed.
 */
export function createShell(path: string, signal: AbortSignal, timeoutMs = TIMEOUT_MS): RunCommand {
  let shell: ChildProcess | undefined;
  const inTurn = createSerializer();
  signal.addEventListener("abort", () => shell && kill(shell), { once: true });
  const run = async (words: readonly string[], partial: boolean): Promise<string | undefined> => {
    if (signal.aborted) return undefined;
    if (shell === undefined || shell.exitCode !== null || shell.signalCode !== null) shell = start(path);
    const result = await execute(shell, words, timeoutMs);
    if (result === undefined) {
      kill(shell);
      shell = undefined;
    }
    const isAccepted = result?.code === 0 || partial;
    return isAccepted && result?.stdout !== "" ? result?.stdout : undefined;
  };
  return (program, args, { partial = false } = {}) => inTurn(() => run([program, ...args], partial));
}

/** The shell leads a process group, so that a hanging command is killed with it. */
function start(path: string): ChildProcess {
  const env = { LC_ALL: "C", PATH: path };
  const shell = spawn("/bin/sh", [], { env, detached: true, stdio: ["pipe", "pipe", "ignore"] });
  shell.stdout.setEncoding("utf8");
  // An error shows as a missing result.
  shell.on("error", () => {});
  shell.stdin.on("error", () => {});
  return shell;
}

function execute(
  shell: ChildProcess,
  words: readonly string[],
  timeoutMs: number,
): Promise<CommandOutput | undefined> {
  const { promise, resolve } = Promise.withResolvers<CommandOutput | undefined>();
  let text = "";
  const take = (chunk: string): void => {
    text += chunk;
    const end = END.exec(text);
    if (end !== null) resolve({ code: Number(end[1]), stdout: text.slice(0, end.index) });
    else if (text.length > MAX_BYTES) resolve(undefined);
  };
  const fail = (): void => resolve(undefined);
  const timeout = setTimeout(fail, timeoutMs);
  shell.stdout?.on("data", take);
  shell.once("close", fail).once("error", fail);
  shell.stdin?.write(`${words.map(quoted).join(" ")} </dev/null 2>/dev/null; printf '\\nexit %d\\n' $?\n`);
  return promise.finally(() => {
    clearTimeout(timeout);
    shell.stdout?.off("data", take);
    shell.off("close", fail).off("error", fail);
  });
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

function kill({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // The shell has exited.
  }
}
