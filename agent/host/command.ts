/** Runs a short command of the system: bounded in time and output, in the C locale; a failure is a value. */
import { execFile } from "node:child_process";

/** Standard output, whatever the exit code; undefined when the program is missing, hangs or printed nothing. */
export type RunCommand = (program: string, args: readonly string[]) => Promise<string | undefined>;

const TIMEOUT_MS = 5_000;
const MOST_BYTES = 4 << 20;

export function createRunCommand(path: string): RunCommand {
  return (program, args) =>
    new Promise((resolve) => {
      const options = {
        timeout: TIMEOUT_MS,
        killSignal: "SIGKILL",
        maxBuffer: MOST_BYTES,
        env: { LC_ALL: "C", PATH: path },
      } as const;
      // sysctl exits with 1 when one key of many is unknown, and still prints the others.
      execFile(program, [...args], options, (error, stdout) => {
        const isCut = error?.killed === true;
        resolve(isCut || stdout === "" ? undefined : stdout);
      });
    });
}
