/** Runs a short command of the system: bounded in time and output, in the C locale; a failure is a value. */
import { execFile } from "node:child_process";

/**
 * Standard output; undefined when the program is missing, hangs, printed nothing, or failed.
 * `partial` takes what a failing one printed: sysctl exits with 1 when one key of many is unknown, and prints the others.
 */
export type RunCommand = (
  program: string,
  args: readonly string[],
  options?: { readonly partial?: boolean },
) => Promise<string | undefined>;

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 4 << 20;

export function createRunCommand(path: string, timeoutMs = TIMEOUT_MS): RunCommand {
  return (program, args, { partial = false } = {}) =>
    new Promise((resolve) => {
      execFile(program, [...args], optionsOf(path, timeoutMs), (error, stdout) => {
        const isWhole = error === null || (partial && error.killed !== true);
        resolve(isWhole && stdout !== "" ? stdout : undefined);
      });
    });
}

/** How a tool ended; `failed` where it could not be run or did not end in time. */
export type ToolResult =
  | { readonly code: number; readonly stdout: string; readonly stderr: string }
  | { readonly failed: string };

/** For tools whose exit code is an answer, such as launchctl's 113 for "no such service". */
export type RunTool = (program: string, args: readonly string[]) => Promise<ToolResult>;

export function createRunTool(path: string, timeoutMs = TIMEOUT_MS): RunTool {
  return (program, args) =>
    new Promise((resolve) => {
      execFile(program, [...args], optionsOf(path, timeoutMs), (error, stdout, stderr) => {
        if (error === null) return resolve({ code: 0, stdout, stderr });
        if (typeof error.code === "number") return resolve({ code: error.code, stdout, stderr });
        const why =
          error.killed === true
            ? `did not end within ${timeoutMs / 1_000} s`
            : `cannot be run (${error.code ?? error.signal})`;
        resolve({ failed: `${program} ${why}` });
      });
    });
}

function optionsOf(path: string, timeout: number) {
  const env = { LC_ALL: "C", PATH: path };
  return { timeout, killSignal: "SIGKILL", maxBuffer: MAX_BYTES, env } as const;
}

export interface CommandResult {
  /** As a shell's: 127 when it could not be run or did not end in time. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** For commands whose failure to start counts like any other: it has an exit code too. */
export type Command = (program: string, args: readonly string[]) => Promise<CommandResult>;

const EXIT_CODED_TIMEOUT_MS = 60_000;
const NOT_RUN = 127;

/** `path` is where programs are found; `waitMs`: how long they may wait for others on top of their own time. */
export function createCommand(path: string, waitMs = 0): Command {
  const run = createRunTool(path, EXIT_CODED_TIMEOUT_MS + waitMs);
  return async (program, args) => {
    const answer = await run(program, args);
    if ("failed" in answer) return { exitCode: NOT_RUN, stdout: "", stderr: answer.failed };
    const { code: exitCode, stdout, stderr } = answer;
    return { exitCode, stdout, stderr };
  };
}

/** A closed terminal and Ctrl-C reach every process of the terminal: what is asked of a service manager is asked to its end. */
export function ignoringSignals(run: Command): Command {
  return (program, args) => run("/bin/sh", ["-c", 'trap "" HUP INT; exec "$0" "$@"', program, ...args]);
}

/** The first line that says something. */
export function commandFailure({ stderr, stdout, exitCode }: CommandResult): string {
  const line = `${stderr}\n${stdout}`.split("\n").find((text) => text.trim() !== "");
  return line?.trim() ?? `exit code ${exitCode}`;
}
