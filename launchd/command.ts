/** Runs a program of the system and keeps what it says: unlike readings, installing needs exit code and reason. */
import { execFile } from "node:child_process";

export interface CommandResult {
  /** 127 when there is no such program, 124 when it did not end in time. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type Command = (program: string, args: readonly string[]) => Promise<CommandResult>;

const TIMEOUT_MS = 60_000;
const MOST_BYTES = 4 << 20;

/** `path` is where programs are found. */
export function createCommand(path: string, timeoutMs = TIMEOUT_MS): Command {
  return (program, args) =>
    new Promise((resolve) => {
      const options = {
        timeout: timeoutMs,
        killSignal: "SIGKILL",
        maxBuffer: MOST_BYTES,
        env: { LC_ALL: "C", PATH: path },
      } as const;
      execFile(program, [...args], options, (error, stdout, stderr) => {
        resolve({
          exitCode: exitCodeOf(error),
          stdout,
          stderr: stderr === "" ? (error?.message ?? "") : stderr,
        });
      });
    });
}

/** The first line that says something. */
export function reasonOf({ stderr, stdout, exitCode }: CommandResult): string {
  const line = `${stderr}\n${stdout}`.split("\n").find((text) => text.trim() !== "");
  return line?.trim() ?? `exit code ${exitCode}`;
}

function exitCodeOf(error: (Error & { code?: unknown; killed?: boolean }) | null): number {
  if (error === null) return 0;
  if (error.killed === true) return 124;
  if (typeof error.code === "number") return error.code;
  return error.code === "ENOENT" ? 127 : 1;
}
