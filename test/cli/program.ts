/** The program `metalbridge`: a verb in this process, or the process that users start. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { main } from "../../cli/main.ts";
import { packageRoot } from "../../local/package-root.ts";
import { until } from "../bed/until.ts";

/** It lives for a moment, and collecting garbage would take a tenth of its CPU time. */
const FEW_COLLECTIONS = ["--min-semi-space-size=32", "--max-semi-space-size=32"];
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
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
  const child = spawn(process.execPath, [...FEW_COLLECTIONS, PROGRAM, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: environment({ kubeconfig, env }),
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

/** A process. Most tests of a verb run it by `runVerb`. */
export function runProgram(args: readonly string[], options: ProgramOptions = {}): Promise<ProgramEnd> {
  return startProgram(args, options).ended;
}

let lastVerb: Promise<unknown> = Promise.resolve();

/**
 * A verb in this process, without the 0.1 to 0.4 s of a core that a process takes. One after another, because environment,
 * standard streams and exit code are the process's: a verb that runs until the test ends it is a program.
 */
export function runVerb(args: readonly string[], options: ProgramOptions = {}): Promise<ProgramEnd> {
  const end = lastVerb.then(() => runInPlace(args, options));
  lastVerb = end.catch(() => {});
  return end;
}

async function runInPlace(args: readonly string[], options: ProgramOptions): Promise<ProgramEnd> {
  const stdout = collect();
  const stderr = collect();
  using restored = new DisposableStack();
  restored.defer(replaceStream("stdin", Readable.from([])));
  restored.defer(replaceStream("stdout", stdout.stream));
  restored.defer(replaceStream("stderr", stderr.stream));
  const { exitCode } = process;
  process.exitCode = undefined;
  restored.defer(() => {
    process.exitCode = exitCode;
  });
  const before = SIGNALS.map((name) => process.listeners(name));
  restored.defer(() => {
    for (const [index, name] of SIGNALS.entries())
      for (const listener of process.listeners(name))
        if (!before[index]?.includes(listener)) process.off(name, listener);
  });
  const outer = { ...process.env };
  setEnvironment(environment(options));
  restored.defer(() => setEnvironment(outer));
  const code = await main(args);
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

function collect() {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      chunks.push(chunk);
      done();
    },
  });
  return { stream, text: () => Buffer.concat(chunks).toString() };
}

function replaceStream(name: "stdin" | "stdout" | "stderr", value: Readable | Writable): () => void {
  const before = Object.getOwnPropertyDescriptor(process, name) ?? {};
  Object.defineProperty(process, name, { value, configurable: true });
  return () => Object.defineProperty(process, name, before);
}

/** Changes the environment of the process itself, which Node's parts in C++ read too. */
function setEnvironment(to: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) if (to[name] === undefined) delete process.env[name];
  for (const [name, value] of Object.entries(to)) if (value !== undefined) process.env[name] = value;
}

/** A small one: what the tests' own holds must not matter. */
function environment({ kubeconfig, env }: ProgramOptions): NodeJS.ProcessEnv {
  const { PATH, METALBRIDGE_USE_BUNDLE, METALBRIDGE_IS_SMALL, NODE_COMPILE_CACHE } = process.env;
  const passedOn = { PATH, METALBRIDGE_USE_BUNDLE, METALBRIDGE_IS_SMALL, NODE_COMPILE_CACHE };
  return { ...passedOn, HOME: "/nonexistent", KUBECONFIG: kubeconfig, ...env };
}
