/** Watches one process, started or adopted: reads its files once, then reacts when its FIFOs are released. */

import { closeSync, constants, fstatSync, ftruncateSync, openSync } from "node:fs";
import { join } from "node:path";
import type { Activity, LivingProcess } from "../macos/living-process.ts";
import { type HeldFifo, holdFifo } from "./fifo.ts";
import { findSessionProcesses, killIfSame, killLeftovers } from "./leftovers.ts";
import { copyFrom, LOG_LIMITS, type RotationLimits, rotateLog } from "./log-rotation.ts";
import { readLogTail } from "./log-tail.ts";
import { type ProcessMark, type RunFiles, readInner, readRunFiles, restoreMarks } from "./run-directory.ts";
import type {
  OnChange,
  ProcessState,
  SignalResult,
  SupervisedProcess,
  SupervisorPorts,
} from "./supervised.ts";
import type { ProcessSweep } from "./sweep.ts";

const FIRST_RECHECK_MS = 10;
const MAX_RECHECK_MS = 10_000;

export interface WatchPorts extends SupervisorPorts {
  readonly sweep: ProcessSweep;
}

/** Resolves to undefined if no process was ever started. Throws if that cannot be read; then no process may be started. */
export async function watchProcess(
  dir: string,
  ports: WatchPorts,
  onChange: OnChange,
): Promise<SupervisedProcess | undefined> {
  const watched = new WatchedProcess(dir, ports, onChange);
  try {
    return (await watched.open()) ? watched : undefined;
  } catch (error) {
    watched.close();
    throw error;
  }
}

class WatchedProcess implements SupervisedProcess {
  readonly dir: string;
  readonly #ports: WatchPorts;
  readonly #onChange: OnChange;
  readonly #main: HeldFifo;
  readonly #alive: HeldFifo;
  readonly #swept = { pids: () => this.#pids(), check: (living: Living) => this.#check(living) };
  #log: HeldLog | undefined;
  #files: RunFiles = {};
  #inner: ProcessMark | undefined;
  #state: ProcessState = { at: "starting" };
  #isSessionEmpty = false;
  /** Start time of the process with the main process's pid, as last read. */
  #mainStartTime: string | undefined | "unknown" = "unknown";
  /** This process has seen the shim alive, so the session id cannot have been reused since. */
  readonly #isWatched: boolean;
  #isKilling = false;
  #isUnread = false;
  #isClosed = false;
  #recheckMs = FIRST_RECHECK_MS;
  #cancelRecheck: (() => void) | undefined;

  constructor(dir: string, ports: WatchPorts, onChange: OnChange) {
    this.dir = dir;
    this.#ports = ports;
    this.#onChange = onChange;
    this.#main = holdFifo(dir, "main", () => this.#settle());
    try {
      this.#alive = holdFifo(dir, "alive", () => this.#settle());
    } catch (error) {
      this.#main.close();
      throw error;
    }
    this.#isWatched = this.#main.isHeld();
  }

  /** The FIFOs were opened before the files are read, so that an exit in between is seen as an exit, not as a missing file. */
  async open(): Promise<boolean> {
    this.#files = readRunFiles(this.dir);
    if (!this.#main.isHeld()) await this.#findSession();
    this.#files = readRunFiles(this.dir);
    await this.#checkMain();
    const first = this.#classify();
    if (first === "never started") {
      this.close();
      return false;
    }
    this.#state = first;
    if (first.at === "gone") this.close();
    else {
      this.#log = holdLog(this.dir);
      this.#ports.sweep.add(this.#swept);
    }
    this.#scheduleRecheck();
    return true;
  }

  state(): ProcessState {
    return this.#state;
  }

  async signal(name: "TERM" | "KILL"): Promise<SignalResult> {
    if (this.#files.main === undefined || this.#state.at !== "running") return "not running";
    return killIfSame(this.#ports.identity, this.#files.main, `SIG${name}`);
  }

  killGroup(): void {
    if (this.#isClosed) return;
    this.#isKilling = true;
    this.#recheckMs = FIRST_RECHECK_MS;
    this.#recheckSafely();
  }

  restoreFiles(): boolean {
    return this.#state.at === "running" && restoreMarks(this.dir, this.#files);
  }

  async activity(): Promise<Activity> {
    if (this.#state.at !== "running") return "unknown";
    return this.#ports.identity.activity(this.innerPid() ?? this.#state.pid);
  }

  innerPid(): number | undefined {
    // The file is written some time after `pid`, without a notification.
    this.#inner ??= readInner(this.dir);
    return this.#inner?.pid;
  }

  logTail(bytes: number): Promise<string> {
    return readLogTail(this.dir, bytes);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRecheck?.();
    this.#ports.sweep.remove(this.#swept);
    this.#main.close();
    this.#alive.close();
    this.#log?.close();
  }

  #settle(): void {
    if (this.#isClosed) return;
    this.#recheckMs = FIRST_RECHECK_MS;
    try {
      this.#reread();
      if (this.#isDoubtful()) {
        this.#recheckSafely();
        return;
      }
      this.#read();
    } catch (error) {
      this.#ports.log.error({ err: error, dir: this.dir }, "cannot read a run directory");
      this.#isUnread = true;
    }
    this.#scheduleRecheck();
  }

  #read(): void {
    this.#reread();
    this.#isUnread = false;
    const seen = this.#classify();
    const next: ProcessState = seen === "never started" ? { at: "gone", exit: "unknown" } : seen;
    if (isSameState(this.#state, next)) return;
    this.#state = next;
    this.#moveLog();
    if (next.at === "gone") this.close();
    this.#onChange(next);
  }

  /** Files are written once per run, so values stay known after a file is removed. */
  #reread(): void {
    this.#files = { ...this.#files, ...readRunFiles(this.dir) };
  }

  #moveLog(): void {
    try {
      this.#log?.moveToCurrent(this.#logLimits.maxBytes);
    } catch (error) {
      this.#ports.log.warn({ err: error, dir: this.dir }, "a removed log could not be read");
    }
  }

  get #logLimits(): RotationLimits {
    return this.#ports.logLimits ?? LOG_LIMITS;
  }

  /** Checks the main process only if the result matters: on macOS each check takes a child process. */
  #classify(): ProcessState | "never started" {
    return classify({
      files: this.#files,
      isMainHeld: this.#main.isHeld(),
      isMainAlive: this.#isDoubtful() && this.#isMainAlive(),
      hasLeftovers: this.#alive.isHeld() || !this.#isSessionEmpty,
    });
  }

  /** The shim has exited without recording an exit status: only the pid shows whether the process is alive. */
  #isDoubtful(): boolean {
    return !this.#main.isHeld() && this.#files.exit === undefined;
  }

  async #checkMain(): Promise<void> {
    const { main } = this.#files;
    if (main !== undefined && this.#isDoubtful())
      this.#mainStartTime = await this.#ports.identity.startTime(main.pid);
  }

  /** Unknown counts as alive: a process counts as exited only once that was observed. */
  #isMainAlive(): boolean {
    const { main } = this.#files;
    return (
      main !== undefined && (this.#mainStartTime === "unknown" || this.#mainStartTime === main.startTime)
    );
  }

  /** A held FIFO reports its release; without one, the rest of the session must be polled. */
  #scheduleRecheck(): void {
    this.#cancelRecheck?.();
    this.#cancelRecheck = undefined;
    if (this.#isClosed) return;
    if (!this.#isKilling && !this.#isUnread && (this.#main.isHeld() || this.#alive.isHeld())) return;
    this.#cancelRecheck = this.#ports.clock.after(this.#recheckMs, () => this.#recheckSafely());
    this.#recheckMs = Math.min(this.#recheckMs * 2, MAX_RECHECK_MS);
  }

  #recheckSafely(): void {
    this.#recheck().catch((error) => {
      this.#ports.log.error({ err: error, dir: this.dir }, "cannot search for remaining processes");
      this.#scheduleRecheck();
    });
  }

  async #recheck(): Promise<void> {
    this.#reread();
    if (this.#isKilling) await killLeftovers(this.#ports.identity, this.dir, this.#files, this.#isWatched);
    if (!this.#main.isHeld()) await this.#findSession();
    await this.#checkMain();
    if (this.#isClosed) return;
    this.#read();
    this.#scheduleRecheck();
  }

  async #findSession(): Promise<void> {
    const members = await findSessionProcesses(this.#ports.identity, this.dir, this.#files, this.#isWatched);
    this.#isSessionEmpty = members !== "unknown" && members.length === 0;
  }

  #pids(): readonly number[] {
    return this.#files.main === undefined ? [] : [this.#files.main.pid];
  }

  /**
   * Runs on each sweep: opens the FIFOs again, in case a release was not reported, compares the main process, and rotates the
   * log. A terminal rotates its own log.
   */
  #check(living: Living): void {
    this.#main.recheck();
    this.#alive.recheck();
    const main = this.#files.main;
    const isRunning = main !== undefined && living.get(main.pid)?.startTime === main.startTime;
    if (!isRunning && (this.#state.at === "running" || this.#state.at === "starting")) this.#settle();
    this.#moveLog();
    if (this.innerPid() === undefined) rotateLog(this.dir, this.#logLimits);
  }
}

type Living = ReadonlyMap<number, LivingProcess>;

interface ObservedRun {
  readonly files: RunFiles;
  /** A process holds FIFO `main`: the shim is alive. */
  readonly isMainHeld: boolean;
  /** The process in `pid` is alive with the same start time. */
  readonly isMainAlive: boolean;
  /** A process other than the main process is alive, or may be. */
  readonly hasLeftovers: boolean;
}

/** "never started": no process can ever have existed in the directory, so it is safe to start one. */
function classify(seen: ObservedRun): ProcessState | "never started" {
  const { session, main, exit } = seen.files;
  if (seen.isMainHeld) {
    return main === undefined ? { at: "starting" } : { at: "running", ...main };
  }
  if (exit !== undefined) return { at: seen.hasLeftovers ? "ended" : "gone", exit };
  if (main !== undefined && seen.isMainAlive) return { at: "running", ...main };
  if (session === undefined && main === undefined && !seen.hasLeftovers) return "never started";
  return { at: seen.hasLeftovers ? "ended" : "gone", exit: "unknown" };
}

function isSameState(a: ProcessState, b: ProcessState): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** The log through an open descriptor, which stays readable after the file is removed from the folder. */
interface HeldLog {
  /** Moves output that was written after the file's removal to the end of the current log. */
  readonly moveToCurrent: (largest: number) => void;
  readonly close: () => void;
}

/** Undefined if there is no log, or it is not writable. */
function holdLog(dir: string): HeldLog | undefined {
  const path = join(dir, "log");
  let fd: number | undefined = openLog(path);
  if (fd === undefined) return undefined;
  return {
    moveToCurrent: (largest) => {
      if (fd === undefined) return;
      const { nlink, size } = fstatSync(fd);
      if (nlink > 0 || size === 0) return;
      const copiedTo = copyFrom(fd, path, { from: Math.max(0, size - largest), maxBytes: largest }, "a");
      // If the folder is missing, the output is kept, but only up to the maximum size of a log: a removed file fills the
      // disk invisibly.
      if (copiedTo !== undefined || size > largest) ftruncateSync(fd, 0);
    },
    close: () => {
      if (fd !== undefined) closeSync(fd);
      fd = undefined;
    },
  };
}

function openLog(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDWR | constants.O_APPEND);
  } catch {
    return undefined;
  }
}
