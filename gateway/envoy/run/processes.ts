/** Envoy's processes: starts one, adopts one that outlived an earlier gateway, replaces one without closing its sockets, restarts it when it ends. */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { ProcessStop } from "../../../src/supervise/stop.ts";
import type { ProcessExit, SupervisedProcess, Supervisor } from "../../../src/supervise/supervised.ts";
import { backoffMs } from "../../../src/util/backoff.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";

const RESTARTS = { firstMs: 100, capMs: 10_000 };
/** A run of this length was no failed start. */
const STABLE_MS = 30_000;
const END_GRACE_MS = 5_000;
/** Envoy allows three processes at a time in a chain of replacements. */
const MAX_PREDECESSORS = 1;
const ENV = { PATH: "/usr/bin:/bin:/usr/sbin:/sbin" };

export interface EnvoyProcessesOptions {
  readonly program: string;
  /** The arguments for a position in the chain of replacements. */
  readonly args: (epoch: number) => readonly string[];
  /** Hexadecimal. A running process with another one is replaced. */
  readonly fingerprint: string;
  /** Has a run directory for each process, named by its epoch and its fingerprint. */
  readonly folder: string;
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
  /** Exits count only while supervising. */
  #at: "finding" | "supervising" | "ending" = "finding";

  constructor(options: EnvoyProcessesOptions) {
    this.#options = options;
  }

  async find(): Promise<number> {
    const { folder, supervisor } = this.#options;
    const names = await readdir(folder).catch(() => []);
    for (const run of names.flatMap(parseRun).sort((a, b) => a.epoch - b.epoch)) {
      const dir = this.#dir(run);
      const member = await this.#watch(run, (onChange) => supervisor.adopt(dir, onChange));
      if (member === undefined || member.process.state().at === "gone")
        await rm(dir, { recursive: true, force: true });
      else this.#add(member);
    }
    return this.#running.length;
  }

  async start(): Promise<void> {
    const { fingerprint, clock, log } = this.#options;
    this.#at = "supervising";
    const current = this.#running.at(-1);
    if (current === undefined) return this.#spawn(0);
    const { dir } = current.process;
    if (current.fingerprint === fingerprint) return log.info({ dir }, "adopted a running envoy");
    for (const { stop } of this.#running.slice(0, -1 - MAX_PREDECESSORS))
      stop.stopBy(clock.monotonicMs() + END_GRACE_MS);
    log.info({ dir }, "replacing a running envoy: its program or settings differ");
    await this.#spawn(current.epoch + 1);
  }

  isRunning(): boolean {
    return this.#running.length > 0;
  }

  hasPredecessor(): boolean {
    return this.#running.length > 1;
  }

  async end(): Promise<void> {
    this.#at = "ending";
    const all = this.#running;
    for (const { stop } of all) stop.stopBy(this.#options.clock.monotonicMs() + END_GRACE_MS);
    await Promise.all(all.map(({ gone }) => gone.promise));
  }

  #dir({ epoch, fingerprint }: Run): string {
    return join(this.#options.folder, `${epoch}-${fingerprint}`);
  }

  async #spawn(epoch: number): Promise<void> {
    const { program, args, fingerprint, supervisor, log } = this.#options;
    const run = { epoch, fingerprint };
    const dir = this.#dir(run);
    const argv = [program, ...args(epoch)];
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
    log.error({ exit, output: join(dir, "log") }, "envoy exited; restarting it");
    // They hold the names that the next process needs.
    for (const { stop } of this.#running) stop.killNow();
    this.#running = [];
    this.#restartLater(member.startedMs);
  }

  #restartLater(startedMs: number): void {
    const { clock, signal, log } = this.#options;
    this.#failures = clock.monotonicMs() - startedMs > STABLE_MS ? 1 : this.#failures + 1;
    const cancel = clock.after(backoffMs(this.#failures, RESTARTS), () => {
      signal.removeEventListener("abort", cancel);
      if (this.#at === "ending" || signal.aborted) return;
      this.#spawn(0).catch((err: unknown) => {
        log.error({ err }, "cannot start envoy; retrying");
        this.#restartLater(clock.monotonicMs());
      });
    });
    signal.addEventListener("abort", cancel, { once: true });
  }
}

function parseRun(name: string): readonly Run[] {
  const match = /^(\d+)-([0-9a-f]+)$/.exec(name);
  return match === null ? [] : [{ epoch: Number(match[1]), fingerprint: match[2] ?? "" }];
}
