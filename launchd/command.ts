/** Runs a program of the system for install and its sisters: one that could not be run has an exit code too. */
import { createRunTool } from "../src/util/command.ts";

export interface CommandResult {
  /** As a shell's: 127 when it could not be run or did not end in time. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type Command = (program: string, args: readonly string[]) => Promise<CommandResult>;

const TIMEOUT_MS = 60_000;
const NOT_RUN = 127;

/** `path` is where programs are found; `waitMs`: how long they may wait for others on top of their own time. */
export function createCommand(path: string, waitMs = 0): Command {
  const run = createRunTool(path, TIMEOUT_MS + waitMs);
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
