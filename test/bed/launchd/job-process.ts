/** A process that launchd or systemd keeps: started, stopped by TERM and then KILL, and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";

export interface Launch {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly uid?: number | undefined;
  readonly gid?: number | undefined;
  /** Appended to. */
  readonly output?: string | undefined;
  readonly umask?: number;
}

export interface JobProcess {
  readonly pid: number;
  readonly startedMs: number;
  /** TERM, and KILL after the time. */
  readonly stop: (killAfterMs: number) => void;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

/** Undefined when it cannot be started: no such program, or an output that cannot be opened (launchd's EX_CONFIG). */
export async function startJob({ argv, env, uid, gid, output }: Launch): Promise<JobProcess | undefined> {
  let fd: number | undefined;
  try {
    fd = output === undefined ? undefined : openSync(output, "a", 0o600);
  } catch {
    return undefined;
  }
  const [program = "", ...args] = argv;
  const ids = process.getuid?.() === 0 && uid !== undefined ? { uid, gid: gid ?? uid } : {};
  // A session of its own stands for the job's process group.
  const child = spawn(program, args, {
    env,
    cwd: "/",
    detached: true,
    stdio: ["ignore", fd ?? "ignore", fd ?? "ignore"],
    ...ids,
  });
  if (fd !== undefined) closeSync(fd);
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  const started = await new Promise<boolean>((resolve) => {
    child.once("spawn", () => resolve(true));
    child.once("error", () => resolve(false));
  });
  if (!started || child.pid === undefined) return undefined;
  return { pid: child.pid, startedMs: performance.now(), exited, stop: (ms) => stop(child, exited, ms) };
}

function stop(child: ChildProcess, exited: Promise<unknown>, killAfterMs: number): void {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), killAfterMs);
  exited.finally(() => clearTimeout(timer)).catch(() => undefined);
}
