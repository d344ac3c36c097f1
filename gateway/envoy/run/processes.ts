/** Envoy's processes: starts one, adopts one that outlived an earlier gateway, replaces one without closing its sockets, restarts it when it ends. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, renameSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import { z } from "zod";
import type { IdentityReader } from "../../../src/macos/living-process.ts";
import { writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { backoffMs } from "../../../src/util/backoff.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { EnvoyPaths } from "./paths.ts";

const RESTARTS = { firstMs: 100, capMs: 10_000 };
/** A run of this length was no failed start. */
const STABLE_MS = 30_000;
const ADOPTED_CHECK_MS = 250;
const END_GRACE_MS = 5_000;
const RECORD_RETRY_MS = 1_000;
/** Envoy allows three processes at a time in a chain of replacements. */
const MAX_PREDECESSORS = 1;
const MAX_OUTPUT_BYTES = 4 << 20;

const recordSchema = z.array(
  z.object({ pid: z.number(), startTime: z.string(), epoch: z.number(), fingerprint: z.string() }),
);

type Recorded = z.infer<typeof recordSchema>[number];

export interface EnvoyProcessesOptions {
  readonly program: string;
  /** The arguments for a position in the chain of replacements. */
  readonly args: (epoch: number) => readonly string[];
  /** A running process with another one is replaced. */
  readonly fingerprint: string;
  readonly paths: EnvoyPaths;
  readonly identity: Pick<IdentityReader, "startTimeNow">;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface EnvoyProcesses {
  /** The recorded processes that still run, the newest last. */
  readonly find: () => Promise<number>;
  /** Adopts, replaces or starts. */
  readonly start: () => Promise<void>;
  readonly isRunning: () => boolean;
  /** An earlier process still finishes its requests, and writes into the access log that it has opened. */
  readonly hasPredecessor: () => boolean;
  /** Ends all of them, and supervision. */
  readonly end: () => Promise<void>;
}

export function createEnvoyProcesses(options: EnvoyProcessesOptions): EnvoyProcesses {
  return new Chain(options);
}

class Chain implements EnvoyProcesses {
  readonly #options: EnvoyProcessesOptions;
  /** The newest last. */
  #running: Recorded[] = [];
  #failures = 0;
  #isEnding = false;
  #isUnrecorded = false;

  constructor(options: EnvoyProcessesOptions) {
    this.#options = options;
  }

  async find(): Promise<number> {
    const text = await readFile(this.#options.paths.processes, "utf8").catch(() => "[]");
    const recorded = recordSchema.safeParse(parseJson(text));
    this.#running = (recorded.data ?? []).filter((process) => this.#isAlive(process));
    return this.#running.length;
  }

  async start(): Promise<void> {
    const current = this.#running.at(-1);
    if (current === undefined) return this.#spawn(0);
    for (const process of this.#running) this.#watchAdopted(process);
    if (current.fingerprint === this.#options.fingerprint) {
      this.#options.log.info({ pid: current.pid }, "adopted a running envoy");
      return;
    }
    for (const old of this.#running.slice(0, -1 - MAX_PREDECESSORS)) kill(old, "SIGTERM");
    this.#options.log.info({ pid: current.pid }, "replacing a running envoy: its program or settings differ");
    await this.#spawn(current.epoch + 1);
  }

  isRunning(): boolean {
    return this.#running.length > 0;
  }

  hasPredecessor(): boolean {
    return this.#running.length > 1;
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    const all = [...this.#running];
    for (const process of all) kill(process, "SIGTERM");
    const deadline = this.#options.clock.monotonicMs() + END_GRACE_MS;
    while (all.some((process) => this.#isAlive(process))) {
      if (this.#options.clock.monotonicMs() > deadline) for (const process of all) kill(process, "SIGKILL");
      await new Promise<void>((resolve) => this.#options.clock.after(20, resolve));
    }
    this.#running = [];
    await this.#record();
  }

  async #spawn(epoch: number): Promise<void> {
    const { program, args, paths, fingerprint, identity, clock, log } = this.#options;
    const startedMs = clock.monotonicMs();
    const launched = launch(program, args(epoch), paths.output);
    const pid = await launched.pid;
    if (pid === undefined) {
      log.error({ program }, "envoy cannot be started: there is no /bin/sh");
      return this.#restartLater(startedMs);
    }
    const startTime = identity.startTimeNow(pid) ?? "exited";
    const process: Recorded = { pid, startTime, epoch, fingerprint };
    this.#running.push(process);
    void launched.exited.then((code) => this.#onExit(process, { code, startedMs }));
    await this.#record();
    log.info({ pid, epoch }, "envoy started");
  }

  #onExit(process: Recorded, exit: { readonly code?: number | null; readonly startedMs: number }): void {
    const wasCurrent = this.#running.at(-1) === process;
    this.#running = this.#running.filter((other) => other !== process);
    if (this.#isEnding || this.#options.signal.aborted) return;
    const { log, paths } = this.#options;
    if (!wasCurrent) {
      log.info({ pid: process.pid }, "the replaced envoy has exited");
      void this.#record();
      return;
    }
    log.error({ pid: process.pid, code: exit.code, output: paths.output }, "envoy exited; restarting it");
    // They hold the names that the next process needs.
    for (const other of this.#running) kill(other, "SIGKILL");
    this.#running = [];
    this.#restartLater(exit.startedMs);
  }

  #restartLater(startedMs: number): void {
    const { clock, signal, log } = this.#options;
    this.#failures = clock.monotonicMs() - startedMs > STABLE_MS ? 1 : this.#failures + 1;
    const cancel = clock.after(backoffMs(this.#failures, RESTARTS), () => {
      signal.removeEventListener("abort", cancel);
      if (this.#isEnding || signal.aborted) return;
      this.#spawn(0).catch((err: unknown) => {
        log.error({ err }, "cannot start envoy; retrying");
        this.#restartLater(clock.monotonicMs());
      });
    });
    signal.addEventListener("abort", cancel, { once: true });
  }

  /** No event reports the end of a process that is not our child. */
  #watchAdopted(process: Recorded): void {
    const { clock, signal } = this.#options;
    const startedMs = clock.monotonicMs();
    const check = (): void => {
      if (this.#isEnding || signal.aborted) return;
      if (this.#isAlive(process)) clock.after(ADOPTED_CHECK_MS, check);
      else this.#onExit(process, { startedMs });
    };
    clock.after(ADOPTED_CHECK_MS, check);
  }

  #isAlive({ pid, startTime }: Recorded): boolean {
    return exists(pid) && this.#options.identity.startTimeNow(pid) === startTime;
  }

  async #record(): Promise<void> {
    const { paths, clock, log, signal } = this.#options;
    try {
      await writeFileAtomic(paths.processes, JSON.stringify(this.#running));
      this.#isUnrecorded = false;
    } catch (err) {
      // A record of exited processes does no harm.
      if (this.#isEnding || signal.aborted) return;
      if (!this.#isUnrecorded)
        log.error(
          { err },
          "cannot record the running envoy, so the next gateway would not find it; retrying",
        );
      this.#isUnrecorded = true;
      const cancel = clock.after(RECORD_RETRY_MS, () => {
        signal.removeEventListener("abort", cancel);
        if (!signal.aborted) void this.#record();
      });
      signal.addEventListener("abort", cancel, { once: true });
    }
  }
}

/**
 * Prints the pid, and stays until Envoy has exited: on Linux, Envoy asks the kernel for a SIGTERM at the end of its parent,
 * which must not be the gateway.
 */
const SHIM = '"$@" 3>&- & echo $! >&3; exec 3>&-; wait $!';

interface Launched {
  /** Undefined if there is no shell. */
  readonly pid: Promise<number | undefined>;
  /** Exit code as a shell reports it: 128 and the signal for a killed process. */
  readonly exited: Promise<number | null>;
}

/** In a session of its own, so that neither Ctrl-C nor the end of this process reaches it. */
function launch(program: string, args: readonly string[], outputFile: string): Launched {
  const size = statSync(outputFile, { throwIfNoEntry: false })?.size ?? 0;
  if (size > MAX_OUTPUT_BYTES) renameSync(outputFile, `${outputFile}.1`);
  const output = openSync(outputFile, "a", 0o600);
  try {
    const child = spawn("/bin/sh", ["-c", SHIM, "envoy", program, ...args], {
      stdio: ["ignore", output, output, "pipe"],
      detached: true,
    });
    child.unref();
    return { pid: readPid(child), exited: exitOf(child) };
  } finally {
    closeSync(output);
  }
}

async function readPid(child: ChildProcess): Promise<number | undefined> {
  let text = "";
  try {
    for await (const chunk of child.stdio[3] as Readable) text += String(chunk);
  } catch {
    return undefined;
  }
  return text === "" ? undefined : Number(text);
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function kill({ pid }: Recorded, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has exited.
  }
}

async function exitOf(child: ChildProcess): Promise<number | null> {
  const [code] = await once(child, "exit").catch(() => [null]);
  return code as number | null;
}
