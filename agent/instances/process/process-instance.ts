/** A process as an instance. A stop sends TERM, TERM again, KILL, and then KILL to the rest of the process group. */
import { join } from "node:path";
import type { Activity } from "../../../src/macos/living-process.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { Instance, InstanceContext, InstanceState, InstanceTarget, StopMode } from "../instance.ts";
import type { EngineCommand, EngineProcess, EngineProcesses } from "./engine-process.ts";

/** Interval after which a signal without effect is sent again. */
const KILL_AGAIN_MS = 1_000;
/** The second TERM is sent after this fraction of the time to stop: after the first, engines may only be finishing idle connections. */
const SECOND_TERM_SHARE = 1 / 3;

/** A command, and the address at which the started process will answer. */
export interface ProcessLaunch extends EngineCommand {
  readonly target: InstanceTarget;
  /** Data in engine.json that the driver needs to adopt the process. */
  readonly stored?: Readonly<Record<string, unknown>>;
}

export interface ProcessInstances {
  /** Throws if an earlier process in the folder may still run, or the process cannot be started. */
  readonly open: (place: InstanceContext, launch: ProcessLaunch) => Promise<Instance>;
  /** Undefined if no process was ever started; throws if that cannot be read. */
  readonly adopt: (place: InstanceContext, target: InstanceTarget) => Promise<Instance | undefined>;
}

interface FootprintPorts {
  readonly clock: Clock;
  /** Memory that a process actually uses; undefined if it cannot be read. */
  readonly footprintBytes: (pid: number) => Promise<number | undefined>;
}

export function createProcessInstances(processes: EngineProcesses, ports: FootprintPorts): ProcessInstances {
  return {
    open: async (place, { target, stored, ...command }) => {
      const handle = { argv: command.argv, tty: command.tty === true ? true : undefined, ...stored };
      const record = { ...command.record, ...handle };
      let instance: ProcessInstance | undefined;
      const process = await processes.startEngine(place.dir, { ...command, record }, () => {
        instance?.proceed();
        place.onChange();
      });
      instance = new ProcessInstance(process, place, target, ports, handle);
      place.log.info({ argv: command.argv }, "process started");
      return instance;
    },
    adopt: async (place, target) => {
      let instance: ProcessInstance | undefined;
      const process = await processes.adoptEngine(place.dir, () => {
        instance?.proceed();
        place.onChange();
      });
      if (process === undefined) return undefined;
      instance = new ProcessInstance(process, place, target, ports, {});
      return instance;
    },
  };
}

class ProcessInstance implements Instance {
  readonly target: InstanceTarget;
  readonly handle: Readonly<Record<string, unknown>>;
  readonly logPath: string;
  readonly #process: EngineProcess;
  readonly #place: InstanceContext;
  readonly #clock: Clock;
  readonly #readFootprint: (pid: number) => Promise<number | undefined>;
  #ending: StopMode | undefined;
  #stopRequestedAt = 0;
  #deadline = Number.POSITIVE_INFINITY;
  #terms = 0;
  #cancel: (() => void) | undefined;

  constructor(
    process: EngineProcess,
    place: InstanceContext,
    target: InstanceTarget,
    ports: FootprintPorts,
    handle: Readonly<Record<string, unknown>>,
  ) {
    this.handle = handle;
    this.#process = process;
    this.#place = place;
    this.target = target;
    this.#clock = ports.clock;
    this.#readFootprint = ports.footprintBytes;
    this.logPath = join(place.dir, "log");
  }

  state(): InstanceState {
    const state = this.#process.state();
    if (state.at === "gone") return state;
    const ending = this.#ending;
    return state.at === "running" ? { at: "running", pid: state.pid, ending } : { ...state, ending };
  }

  stopBy(deadlineMs: number): void {
    if (this.#ending === "killing" || deadlineMs >= this.#deadline) return;
    if (this.#ending === undefined) this.#stopRequestedAt = this.#clock.monotonicMs();
    this.#ending = "stopping";
    this.#deadline = deadlineMs;
    this.proceed();
  }

  killNow(): void {
    if (this.#ending === "killing") return;
    this.#ending = "killing";
    this.proceed();
  }

  /** Takes the next step of a requested stop, and sets the timer for the step after it. */
  proceed(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.#ending === undefined) return;
    const nextInMs = this.#step(this.#clock.monotonicMs());
    if (nextInMs !== undefined) this.#cancel = this.#clock.after(nextInMs, () => this.proceed());
  }

  async footprintBytes(): Promise<number | undefined> {
    const state = this.#process.state();
    if (state.at !== "running") return undefined;
    const inner = this.#process.innerPid();
    const [main, program] = await Promise.all([
      this.#readFootprint(state.pid),
      inner === undefined ? 0 : this.#readFootprint(inner),
    ]);
    return main === undefined || program === undefined ? undefined : main + program;
  }

  activity(): Promise<Activity> {
    return this.#process.activity();
  }

  restoreFiles(): boolean {
    return this.#process.restoreFiles();
  }

  logTail(bytes: number): Promise<string> {
    return this.#process.logTail(bytes);
  }

  close(): void {
    this.#cancel?.();
    this.#process.close();
  }

  /** Milliseconds until the next step; undefined if no timer is needed. */
  #step(now: number): number | undefined {
    const mustEnd = this.#ending === "killing" || now >= this.#deadline;
    switch (this.#process.state().at) {
      case "starting":
        if (!mustEnd) return this.#deadline - now;
        // The pid is not known yet, so the shim is killed with everything that it may have started.
        this.#process.killGroup();
        return KILL_AGAIN_MS;
      case "running":
        // Only the main process is killed, so that the shim can still record the exit status.
        if (!mustEnd) return this.#terminate(now);
        this.#signal("KILL");
        return KILL_AGAIN_MS;
      case "ended":
        this.#process.killGroup();
        return KILL_AGAIN_MS;
      case "gone":
        return undefined;
    }
  }

  #terminate(now: number): number {
    const secondAt = this.#stopRequestedAt + (this.#deadline - this.#stopRequestedAt) * SECOND_TERM_SHARE;
    const isDue = this.#terms === 0 || (this.#terms === 1 && now >= secondAt);
    if (isDue) {
      this.#terms += 1;
      this.#signal("TERM");
    }
    return Math.max(1, (this.#terms === 1 ? secondAt : this.#deadline) - now);
  }

  #signal(signal: "TERM" | "KILL"): void {
    void this.#process
      .signal(signal)
      .then((result) => this.#place.log.info({ signal, result }, "signal sent"));
  }
}
