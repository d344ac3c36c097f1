/** Runs short commands of the system in the C locale, with limits for time and output. A failure is a value. */
import { execFile } from "node:child_process";

/**
 * Resolves to the standard output; undefined if the program is missing, hangs, prints nothing, or fails.
 * `partial` accepts the output of a failing program: sysctl exits with 1 if one of several keys is unknown, and prints the others.
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
        const isAccepted = error === null || (partial && error.killed !== true);
        resolve(isAccepted && stdout !== "" ? stdout : undefined);
      });
    });
}

/** The result of a tool. `failed`: it could not be run or did not finish in time. */
export type ToolResult =
  | { readonly code: number; readonly stdout: string; readonly stderr: string }
  | { readonly failed: string };

/** For tools with a meaningful exit code, such as launchctl's 113 for "no such service". */
export type RunTool = (program: string, args: readonly string[]) => Promise<ToolResult>;

export function createRunTool(path: string, timeoutMs = TIMEOUT_MS): RunTool {
  return (program, args) =>
    new Promise((resolve) => {
      execFile(program, [...args], optionsOf(path, timeoutMs), (error, stdout, stderr) => {
        if (error === null) return resolve({ code: 0, stdout, stderr });
        if (typeof error.code === "number") return resolve({ code: error.code, stdout, stderr });
        const problem =
          error.killed === true
            ? `did not end within ${timeoutMs / 1_000} s`
            : `cannot be run (${error.code ?? error.signal})`;
        resolve({ failed: `${program} ${problem}` });
      });
    });
}

function optionsOf(path: string, timeout: number) {
  const env = { LC_ALL: "C", PATH: path };
  return { timeout, killSignal: "SIGKILL", maxBuffer: MAX_BYTES, env } as const;
}

export interface CommandResult {
  /** 127, as in a shell, if the command could not be run or did not finish in time. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command whose failure to start is reported as an exit code too. */
export type Command = (program: string, args: readonly string[]) => Promise<CommandResult>;

const EXIT_CODED_TIMEOUT_MS = 60_000;
const NOT_RUN = 127;

/** `path` is the search path for programs. `waitMs` is additional time for commands that wait for other processes. */
export function createCommand(path: string, waitMs = 0): Command {
  const run = createRunTool(path, EXIT_CODED_TIMEOUT_MS + waitMs);
  return async (program, args) => {
    const result = await run(program, args);
    if ("failed" in result) return { exitCode: NOT_RUN, stdout: "", stderr: result.failed };
    const { code: exitCode, stdout, stderr } = result;
    return { exitCode, stdout, stderr };
  };
}

/** Runs commands that ignore SIGHUP and SIGINT, so that a closed terminal or Ctrl-C does not interrupt a request to a service manager. */
export function ignoringSignals(run: Command): Command {
  return (program, args) => run("/bin/sh", ["-c", 'trap "" HUP INT; exec "$0" "$@"', program, ...args]);
}

/** The first line of output, or the exit code. */
export function commandFailure({ stderr, stdout, exitCode }: CommandResult): string {
  const line = `${stderr}\n${stdout}`.split("\n").find((text) => text.trim() !== "");
  return line?.trim() ?? `exit code ${exitCode}`;
}
