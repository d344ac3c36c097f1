/** Envoy's processes: starts one, adopts one that outlived an earlier gateway, replaces one without closing its sockets, restarts it when it ends. */
import { renameSync } from "node:fs";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { readLogTail } from "../../../src/supervise/log-tail.ts";
import { ProcessStop } from "../../../src/supervise/stop.ts";
import type { ProcessExit, SupervisedProcess, Supervisor } from "../../../src/supervise/supervised.ts";
import { ifExists, systemCode } from "../../../src/util/atomic-file.ts";
import { backoffMs } from "../../../src/util/backoff.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";

const RESTARTS = { firstMs: 100, capMs: 10_000 };
/** A run of this length was no failed start. */
const STABLE_MS = 30_000;
const END_GRACE_MS = 5_000;
/** Envoy allows three processes at a time in a chain of replacements. */
const MAX_PREDECESSORS = 1;
/** Bytes of its output for the log of the gateway. */
const TAIL_BYTES = 1_024;
const ENV = { PATH: "/usr/bin:/bin:/usr/sbin:/sbin" };

export interface EnvoyProcessesOptions {
  readonly program: string;
  /** The arguments for a position in the chain of replacements. */
  readonly args: (epoch: number) => readonly string[];
  /** Hexadecimal. A running process with another one is replaced. */
  readonly fingerprint: string;
  /** Has a run directory for each process, named by its epoch and its fingerprint. */
  readonly folder: string;
  /** Throws if another program has the port. */
  readonly requirePort?: (() => Promise<void>) | undefined;
  readonly supervisor: Supervisor;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface EnvoyProcesses {
  /** The processes of an earlier gateway that still run, the newest last. */
  readonly find: () => Promise<number>;
  /** Adopts, replaces or starts. */
  readonly start: () => Promise<void>;
  /** Restores what was removed of the files by which the next gateway finds them. */
  readonly restoreFiles: () => void;
  readonly isRunning: () => boolean;
  /** An earlier process still finishes its requests, and writes into the access log that it has opened. */
  readonly hasPredecessor: () => boolean;
  /** Ends all of them, and supervision. */
  readonly end: () => Promise<void>;
}

export function createEnvoyProcesses(options: EnvoyProcessesOptions): EnvoyProcesses {
  return new Chain(options);
}

interface Run {
  readonly epoch: number;
  readonly fingerprint: string;
}

interface Member extends Run {
  readonly process: SupervisedProcess;
  readonly stop: ProcessStop;
  readonly startedMs: number;
  readonly gone: PromiseWithResolvers<void>;
}

class Chain implements EnvoyProcesses {
  readonly #options: EnvoyProcessesOptions;
  /** The newest last. */
  #running: readonly Member[] = [];
  #failures = 0;
  #spawning: Promise<void> | undefined;
  /** Exits count only while supervising. */
  #at: "finding" | "supervising" | "ending" = "finding";

  constructor(options: EnvoyProcessesOptions) {
    this.#options = options;
  }

  async find(): Promise<number> {
    const { folder, supervisor } = this.#options;
    const names = (await ifExists(readdir(folder))) ?? [];
    const runs = await Promise.all(
      names.flatMap(parseRun).map(async (run) => ({ ...run, ...(await this.#age(run)) })),
    );
    const dead: (typeof runs)[number][] = [];
    for (const run of runs.sort((a, b) => a.epoch - b.epoch || a.mtimeMs - b.mtimeMs)) {
      const member = await this.#watch(run, (onChange) => supervisor.adopt(this.#dir(run), onChange));
      if (member?.process.state().at === "ended") await this.#waitForExit(member);
      else if (member !== undefined && member.process.state().at !== "gone") this.#add(member);
      if (member === undefined || member.process.state().at === "gone") dead.push(run);
    }
    // The gateway has named the log of the last one when it exited.
    for (const run of dead.sort((a, b) => a.mtimeMs - b.mtimeMs).slice(0, -1))
      await rm(this.#dir(run), { recursive: true, force: true });
    return this.#running.length;
  }

  async start(): Promise<void> {
    const { fingerprint, clock, log } = this.#options;
    this.#at = "supervising";
    const current = this.#running.at(-1);
    if (current !== undefined) {
      const { dir } = current.process;
      if (current.fingerprint === fingerprint) return log.info({ dir }, "adopted a running envoy");
      for (const { stop } of this.#running.slice(0, -1 - MAX_PREDECESSORS))
        stop.stopBy(clock.monotonicMs() + END_GRACE_MS);
      log.info({ dir }, "replacing a running envoy: its program or settings differ");
    }
    const startedMs = clock.monotonicMs();
    await this.#spawn().catch((err: unknown) => {
      // The gateway waits for its disk itself.
      if (!(err instanceof MetalbridgeError) && systemCode(err) !== undefined) throw err;
      this.#retryLater(err, startedMs);
    });
  }

  restoreFiles(): void {
    for (const { process } of this.#running) process.restoreFiles();
  }

  isRunning(): boolean {
    return this.#running.length > 0;
  }

  hasPredecessor(): boolean {
    return this.#running.length > 1;
  }

  async end(): Promise<void> {
    this.#at = "ending";
    await this.#spawning?.catch(() => undefined);
    const all = this.#running;
    for (const { stop } of all) stop.stopBy(this.#options.clock.monotonicMs() + END_GRACE_MS);
    await Promise.all(all.map(({ gone }) => gone.promise));
  }

  #dir({ epoch, fingerprint }: Run): string {
    return join(this.#options.folder, `${epoch}-${fingerprint}`);
  }

  async #age(run: Run): Promise<{ readonly mtimeMs: number }> {
    const { mtimeMs } = await stat(this.#dir(run));
    return { mtimeMs };
  }

  /** It has exited, and what is left of its session may hold the port. */
  async #waitForExit(member: Member): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(END_GRACE_MS, late.resolve);
    this.#follow(member);
    await Promise.race([member.gone.promise, late.promise]);
    cancel();
  }

  /** Starts a process, unless the newest one has these settings. */
  #spawn(): Promise<void> {
    const { fingerprint } = this.#options;
    const current = this.#running.at(-1);
    this.#spawning =
      current?.fingerprint === fingerprint
        ? Promise.resolve()
        : this.#launch({ epoch: current === undefined ? 0 : current.epoch + 1, fingerprint });
    return this.#spawning;
  }

  async #launch(run: Run): Promise<void> {
    const { program, args, requirePort, supervisor, log } = this.#options;
    const dir = this.#dir(run);
    // A later one takes over the sockets of the one before.
    if (run.epoch === 0) await requirePort?.();
    const argv = [program, ...args(run.epoch)];
    const member = await this.#watch(run, (onChange) => supervisor.start(dir, { argv, env: ENV }, onChange));
    log.info({ dir }, "envoy started");
    if (member !== undefined) this.#add(member);
  }

  async #watch(
    run: Run,
    open: (onChange: () => void) => Promise<SupervisedProcess | undefined>,
  ): Promise<Member | undefined> {
    const { clock, signal } = this.#options;
    const startedMs = clock.monotonicMs();
    let member: Member | undefined;
    const process = await open(() => member && this.#follow(member));
    if (process === undefined) return undefined;
    const stop = new ProcessStop(process, { clock });
    const leave = (): void => {
      stop.close();
      process.close();
    };
    member = { ...run, process, stop, startedMs, gone: Promise.withResolvers() };
    void member.gone.promise.then(() => signal.removeEventListener("abort", leave));
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
    return member;
  }

  #add(member: Member): void {
    this.#running = [...this.#running, member];
    this.#follow(member);
  }

  #follow(member: Member): void {
    const { process, stop, gone } = member;
    const state = process.state();
    stop.proceed();
    if (state.at === "gone") gone.resolve();
    if (state.at !== "ended" && state.at !== "gone") return;
    stop.killNow();
    if (this.#running.includes(member)) this.#onExit(member, state.exit);
  }

  #onExit(member: Member, exit: ProcessExit | "unknown"): void {
    const wasCurrent = this.#running.at(-1) === member;
    this.#running = this.#running.filter((other) => other !== member);
    const { log, signal } = this.#options;
    if (this.#at !== "supervising" || signal.aborted) return;
    const { dir } = member.process;
    if (!wasCurrent) {
      log.info({ dir }, "the replaced envoy has exited");
      return;
    }
    const last = this.#reuse(dir);
    // They hold the names that the next process needs.
    const older = this.#running;
    for (const { stop } of older) stop.killNow();
    this.#running = [];
    void (async () => {
      const tail = await readLogTail(last, TAIL_BYTES).catch(() => "");
      const says = tail.trim().split("\n").at(-1);
      log.error({ exit, output: join(last, "log"), says }, "envoy exited; restarting it");
      await Promise.all(older.map((one) => this.#waitForExit(one)));
      this.#restartLater(member.startedMs);
    })();
  }

  /** On a full disk, only the directory of an earlier run has the files of the next one. */
  #reuse(dir: string): string {
    const next = this.#dir({ epoch: 0, fingerprint: this.#options.fingerprint });
    try {
      renameSync(dir, next);
      return next;
    } catch {
      // It was removed, or the next one exists.
      return dir;
    }
  }

  #retryLater(err: unknown, startedMs: number): void {
    this.#options.log.error({ err }, "cannot start envoy; retrying");
    this.#restartLater(startedMs);
  }

  #restartLater(startedMs: number): void {
    const { clock, signal } = this.#options;
    this.#failures = clock.monotonicMs() - startedMs > STABLE_MS ? 1 : this.#failures + 1;
    const waitMs = this.#failures === 1 ? 0 : backoffMs(this.#failures - 1, RESTARTS);
    const cancel = clock.after(waitMs, () => {
      signal.removeEventListener("abort", cancel);
      if (this.#at === "ending" || signal.aborted) return;
      this.#spawn().catch((err: unknown) => this.#retryLater(err, clock.monotonicMs()));
    });
    signal.addEventListener("abort", cancel, { once: true });
  }
}

function parseRun(name: string): readonly Run[] {
  const match = /^(\d+)-([0-9a-f]+)$/.exec(name);
  return match === null ? [] : [{ epoch: Number(match[1]), fingerprint: match[2] ?? "" }];
}
