/** A process as an instance: "stop by" and "end now" become TERM, TERM again, KILL, and then the rest of its group. */
import { join } from "node:path";
import type { Activity } from "../../../src/macos/living-process.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { StopMode, Instance, InstanceContext, InstanceState, InstanceTarget } from "../instance.ts";
import type { EngineCommand, EngineProcess, EngineProcesses } from "./engine-process.ts";

/** A signal that has had no effect is sent again after this long. */
const KILL_AGAIN_MS = 1_000;
/** The second TERM comes after this share of the time to stop: after the first, engines may only be finishing silent connections. */
const SECOND_TERM_SHARE = 1 / 3;

/** A command, and where the process it starts will answer. */
export interface ProcessLaunch extends EngineCommand {
  readonly target: InstanceTarget;
  /** What the driver needs in engine.json to adopt it. */
  readonly stored?: Readonly<Record<string, unknown>>;
}

export interface ProcessInstances {
  /** Throws where an earlier process in the folder may still run, or none can be started. */
  readonly open: (place: InstanceContext, launch: ProcessLaunch) => Promise<Instance>;
  /** Undefined where none was ever started; throws where that cannot be read. */
  readonly adopt: (place: InstanceContext, target: InstanceTarget) => Promise<Instance | undefined>;
}

interface FootprintPorts {
  readonly clock: Clock;
  /** What a process really takes of the memory; undefined when it cannot be read. */
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
    const ending = this.#ending === undefined ? {} : { ending: this.#ending };
    return state.at === "running" ? { at: "running", pid: state.pid, ...ending } : { ...state, ...ending };
  }

  stopBy(deadlineMs: number): void {
    if (this.#ending === "killing" || deadlineMs >= this.#deadline) return;
    if (this.#ending === undefined) this.#stopRequestedAt = this.#clock.monotonicMs();
    this.#ending = "stopping";
    this.#deadline = deadlineMs;
    this.proceed();
  }

  endNow(): void {
    if (this.#ending === "killing") return;
    this.#ending = "killing";
    this.proceed();
  }

  /** Takes the next step of an end that was asked for, and sets the timer for the one after it. */
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

  /** Milliseconds until the next step; undefined where the end of the process, or its group's own watch, brings it. */
  #step(now: number): number | undefined {
    const mustEnd = this.#ending === "killing" || now >= this.#deadline;
    switch (this.#process.state().at) {
      case "starting":
        if (!mustEnd) return this.#deadline - now;
        // A shim that has not named its process is killed with all it may have started; nothing else is certain.
        this.#process.killGroup();
        return KILL_AGAIN_MS;
      case "running":
        // The main process alone, so that its shim can still write down how it exited.
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
