/** The program `metalbridge` as users run it: one process per command line. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { packageRoot } from "../../local/package-root.ts";
import { until } from "../bed/until.ts";

const PROGRAM = path.join(packageRoot(), "cli", "metalbridge.mjs");

export interface ProgramEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Program extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Resolves when its standard output matches. */
  readonly until: (pattern: RegExp) => Promise<void>;
  readonly ended: Promise<ProgramEnd>;
}

export interface ProgramOptions {
  readonly kubeconfig?: string | undefined;
  readonly env?: Readonly<Record<string, string>>;
}

/** Started with a small environment of its own; disposal kills it. */
export function startProgram(args: readonly string[], { kubeconfig, env }: ProgramOptions = {}): Program {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env.PATH,
      HOME: "/nonexistent",
      METALBRIDGE_USE_BUNDLE: process.env.METALBRIDGE_USE_BUNDLE,
      KUBECONFIG: kubeconfig,
      ...env,
    },
  });
  const text = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text.stdout += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (text.stderr += chunk));
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, ...text }));
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  return {
    child,
    ended,
    stdout: () => text.stdout,
    stderr: () => text.stderr,
    until: (pattern) =>
      until(() => {
        if (pattern.test(text.stdout)) return;
        throw new Error(
          `${pattern} is not in ${JSON.stringify(text)}${isRunning() ? "" : ", and it has exited"}`,
        );
      }),
    [Symbol.asyncDispose]: async () => {
      if (isRunning()) child.kill("SIGKILL");
      await ended;
    },
  };
}

export function runProgram(args: readonly string[], options: ProgramOptions = {}): Promise<ProgramEnd> {
  return startProgram(args, options).ended;
}
