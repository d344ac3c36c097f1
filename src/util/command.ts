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
const MOST_BYTES = 4 << 20;

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
  return { timeout, killSignal: "SIGKILL", maxBuffer: MOST_BYTES, env } as const;
}
