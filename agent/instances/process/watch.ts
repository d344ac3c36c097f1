/** Watching one engine, own or adopted: read once, then react to the ends of its FIFOs. */

import type { Activity, LivingProcess } from "../../../src/macos/living-process.ts";
import { LOG_LIMITS, type RotationLimits, rotateLog } from "../run-files/log-rotation.ts";
import { type RunFiles, readInner, readRunFiles, restoreMarks } from "../run-files/run-directory.ts";
import { classify, isSameState } from "./classify.ts";
import type { EngineProcess, OnChange, ProcessPorts, ProcessState, SignalResult } from "./engine-process.ts";
import { type HeldFifo, holdFifo } from "./fifo.ts";
import { type HeldLog, holdLog } from "./held-log.ts";
import { findSessionProcesses, killIfSame, killLeftovers } from "./leftovers.ts";
import { readLogTail } from "./log-tail.ts";
import type { ProcessSweep } from "./sweep.ts";

const FIRST_RECHECK_MS = 10;
const MAX_RECHECK_MS = 10_000;

export interface WatchPorts extends ProcessPorts {
  readonly sweep: ProcessSweep;
}

/** Answers undefined where no engine was ever started; throws where that cannot be read, and is then not to be started. */
export async function watchEngine(
  dir: string,
  ports: WatchPorts,
  onChange: OnChange,
): Promise<EngineProcess | undefined> {
  const engine = new WatchedEngine(dir, ports, onChange);
  try {
    return (await engine.open()) ? engine : undefined;
  } catch (error) {
    engine.close();
    throw error;
  }
}

class WatchedEngine implements EngineProcess {
  readonly dir: string;
  readonly #ports: WatchPorts;
  readonly #onChange: OnChange;
  readonly #main: HeldFifo;
  readonly #alive: HeldFifo;
  readonly #swept = { pids: () => this.#pids(), check: (living: Living) => this.#check(living) };
  #log: HeldLog | undefined;
  #files: RunFiles = {};
  #state: ProcessState = { at: "starting" };
  #isSessionEmpty = false;
  /** The start time that the main process's pid had when it was last asked for. */
  #mainStartTime: string | undefined | "unknown" = "unknown";
  /** This process has seen the shim alive, so the session's number cannot have gone to a stranger since. */
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

  /** The FIFOs were asked before the files are read: an end in between is then seen as an end, not as a missing file. */
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
    // Written some time after `pid`, and nothing notifies of it.
    if (this.#files.inner === undefined) this.#files = { ...this.#files, ...readInner(this.dir) };
    return this.#files.inner?.pid;
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
      this.#ports.log.error({ err: error, dir: this.dir }, "the run directory of an engine cannot be read");
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

  /** Marks are written once per run: what was read stays known after the file is removed. */
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

  /** The main process is asked for only where its answer counts: on macOS each question is a child process. */
  #classify(): ProcessState | "never started" {
    return classify({
      files: this.#files,
      isMainHeld: this.#main.isHeld(),
      isMainAlive: this.#isDoubtful() && this.#isMainAlive(),
      hasLeftovers: this.#alive.isHeld() || !this.#isSessionEmpty,
    });
  }

  /** Its shim is gone and has not written how it ended: only its pid can tell. */
  #isDoubtful(): boolean {
    return !this.#main.isHeld() && this.#files.exit === undefined;
  }

  async #checkMain(): Promise<void> {
    const { main } = this.#files;
    if (main !== undefined && this.#isDoubtful())
      this.#mainStartTime = await this.#ports.identity.startTime(main.pid);
  }

  /** Unknown counts as alive: an engine is given up only when it was seen to be gone. */
  #isMainAlive(): boolean {
    const { main } = this.#files;
    return main !== undefined && (this.#mainStartTime === "unknown" || this.#mainStartTime === main.startTime);
  }

  /** While a FIFO is held, its end will tell; otherwise the rest of the session has to be asked for. */
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
      this.#ports.log.error({ err: error, dir: this.dir }, "looking for what is left of an engine failed");
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
   * On each sweep: opens the FIFOs again, in case an end was not delivered, compares the main process,
   * rotates the log. A terminal rotates its own.
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
