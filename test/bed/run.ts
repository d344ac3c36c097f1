/** Runs programs to their end: bounded in time, with their output as the result. */
import { execFile } from "node:child_process";

export interface RunResult {
  /** A signal, or why the program could not be started, where it has no exit code. */
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string;
  readonly timeoutMs?: number;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly uid?: number;
  /** Sees output as it comes. */
  readonly onStdout?: (chunk: string) => void;
}

/** For programs that take as long as their input is large. */
export const UNHURRIED: RunOptions = { timeoutMs: 3_600_000 };

/** A program that fails is a result, not an error. */
export function execute(
  program: string,
  args: readonly string[],
  { input = "", timeoutMs = 60_000, onStdout, uid, ...options }: RunOptions = {},
): Promise<RunResult> {
  return new Promise((resolve) => {
    const ids = uid === undefined ? {} : { uid, gid: uid };
    const limits = { timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: 64 << 20 } as const;
    const child = execFile(program, [...args], { ...options, ...ids, ...limits }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : (error.code ?? error.signal ?? "unknown"), stdout, stderr });
    });
    child.stdout?.on("data", (chunk) => onStdout?.(String(chunk)));
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}

/** Rejects with what the program printed. */
export async function run(
  program: string,
  args: readonly string[],
  options: string | RunOptions = {},
): Promise<string> {
  const settings = typeof options === "string" ? { input: options } : options;
  const { code, stdout, stderr } = await execute(program, args, settings);
  if (code === 0) return stdout;
  throw new Error(`${program} ${args.join(" ")} ended with ${code}: ${stderr}${stdout}`);
}
