/** Runs short commands in one shell that stays, as a coprocess: forking a process of the agent's size costs several times as much. */
import { type ChildProcess, spawn } from "node:child_process";
import type { RunCommand } from "../util/command.ts";

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 4 << 20;
/** Starts a line of its own, whatever the command printed last. */
const END = /\nexit (\d+)\n$/;

interface Answer {
  readonly code: number;
  readonly stdout: string;
}

/**
 * Like `createRunCommand`, for what runs every few seconds; one command at a time. The shell starts with the first command,
 * and again where it is gone or a command did not answer in time. It ends with `signal`, and with this process, however that ends.
 */
export function createShell(path: string, signal: AbortSignal, timeoutMs = TIMEOUT_MS): RunCommand {
  let shell: ChildProcess | undefined;
  let last: Promise<unknown> = Promise.resolve();
  signal.addEventListener("abort", () => shell && kill(shell), { once: true });
  const run = async (words: readonly string[], partial: boolean): Promise<string | undefined> => {
    if (signal.aborted) return undefined;
    if (shell === undefined || shell.exitCode !== null || shell.signalCode !== null) shell = start(path);
    const answer = await ask(shell, words, timeoutMs);
    if (answer === undefined) {
      kill(shell);
      shell = undefined;
    }
    const isWhole = answer?.code === 0 || partial;
    return isWhole && answer?.stdout !== "" ? answer?.stdout : undefined;
  };
  return (program, args, { partial = false } = {}) => {
    const turn = last.then(() => run([program, ...args], partial));
    last = turn;
    return turn;
  };
}

/** It leads a group, so that a command that hangs is killed with it. */
function start(path: string): ChildProcess {
  const env = { LC_ALL: "C", PATH: path };
  const shell = spawn("/bin/sh", [], { env, detached: true, stdio: ["pipe", "pipe", "ignore"] });
  shell.stdout.setEncoding("utf8");
  // What went wrong is seen as an answer that does not come.
  shell.on("error", () => {});
  shell.stdin.on("error", () => {});
  return shell;
}

function ask(shell: ChildProcess, words: readonly string[], timeoutMs: number): Promise<Answer | undefined> {
  const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
  let text = "";
  const take = (chunk: string): void => {
    text += chunk;
    const end = END.exec(text);
    if (end !== null) resolve({ code: Number(end[1]), stdout: text.slice(0, end.index) });
    else if (text.length > MAX_BYTES) resolve(undefined);
  };
  const giveUp = (): void => resolve(undefined);
  const late = setTimeout(giveUp, timeoutMs);
  shell.stdout?.on("data", take);
  shell.once("close", giveUp).once("error", giveUp);
  shell.stdin?.write(`${words.map(quoted).join(" ")} </dev/null 2>/dev/null; printf '\\nexit %d\\n' $?\n`);
  return promise.finally(() => {
    clearTimeout(late);
    shell.stdout?.off("data", take);
    shell.off("close", giveUp).off("error", giveUp);
  });
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

function kill({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // It has exited.
  }
}
