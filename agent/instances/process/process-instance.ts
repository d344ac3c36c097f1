/** A process of its own as an instance. */
import { join } from "node:path";
import { LOG_LIMITS, type RotationLimits } from "../../../src/supervise/log-rotation.ts";
import { ProcessStop } from "../../../src/supervise/stop.ts";
import type { ProcessCommand, SupervisedProcess, Supervisor } from "../../../src/supervise/supervised.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { Instance, InstanceContext, InstanceTarget } from "../instance.ts";
import { prepareTerminal } from "./terminal/launch.ts";

/** A command, and the address at which the started process will answer. */
export interface ProcessLaunch extends Omit<ProcessCommand, "prepare"> {
  readonly target: InstanceTarget;
  /** The engine runs in a terminal that users can attach to; the main process is then the terminal's. */
  readonly tty?: boolean;
  /** Data in engine.json that the driver needs to adopt the process. */
  readonly stored?: Readonly<Record<string, unknown>>;
}

export interface ProcessInstances {
  /** Throws if an earlier process in the folder may still run, or the process cannot be started. */
  readonly open: (place: InstanceContext, launch: ProcessLaunch) => Promise<Instance>;
  /** Undefined if no process was ever started; throws if that cannot be read. */
  readonly adopt: (place: InstanceContext, target: InstanceTarget) => Promise<Instance | undefined>;
}

interface InstancePorts {
  readonly clock: Clock;
  /** Memory that a process actually uses; undefined if it cannot be read. */
  readonly footprintBytes: (pid: number) => Promise<number | undefined>;
  /** Limits of a log that a terminal writes. */
  readonly logLimits?: RotationLimits;
}

export function createProcessInstances(supervisor: Supervisor, ports: InstancePorts): ProcessInstances {
  return {
    open: async (place, { target, stored, tty, ...command }) => {
      const handle = { argv: command.argv, tty: tty === true ? true : undefined, ...stored };
      const record = { ...command.record, ...handle };
      const prepare =
        tty === true ? () => prepareTerminal(place.dir, command, ports.logLimits ?? LOG_LIMITS) : undefined;
      let stop: ProcessStop | undefined;
      const process = await supervisor.start(place.dir, { ...command, record, prepare }, () => {
        stop?.proceed();
        place.onChange();
      });
      stop = stopOf(process, place, ports);
      place.log.info({ argv: command.argv }, "process started");
      return instanceOf(process, stop, { place, target, handle }, ports);
    },
    adopt: async (place, target) => {
      let stop: ProcessStop | undefined;
      const process = await supervisor.adopt(place.dir, () => {
        stop?.proceed();
        place.onChange();
      });
      if (process === undefined) return undefined;
      stop = stopOf(process, place, ports);
      return instanceOf(process, stop, { place, target, handle: {} }, ports);
    },
  };
}

function stopOf(process: SupervisedProcess, { log }: InstanceContext, { clock }: InstancePorts): ProcessStop {
  return new ProcessStop(process, {
    clock,
    onSignal: (signal, result) => log.info({ signal, result }, "signal sent"),
  });
}

function instanceOf(
  process: SupervisedProcess,
  stop: ProcessStop,
  { place, target, handle }: Pick<Instance, "target" | "handle"> & { readonly place: InstanceContext },
  { footprintBytes }: InstancePorts,
): Instance {
  return {
    target,
    handle,
    logPath: join(place.dir, "log"),
    state: () => {
      const state = process.state();
      if (state.at === "gone") return state;
      const ending = stop.mode;
      return state.at === "running" ? { at: "running", pid: state.pid, ending } : { ...state, ending };
    },
    stopBy: (deadlineMs) => stop.stopBy(deadlineMs),
    killNow: () => stop.killNow(),
    footprintBytes: async () => {
      const state = process.state();
      if (state.at !== "running") return undefined;
      const inner = process.innerPid();
      const [main, program] = await Promise.all([
        footprintBytes(state.pid),
        inner === undefined ? 0 : footprintBytes(inner),
      ]);
      return main === undefined || program === undefined ? undefined : main + program;
    },
    activity: () => process.activity(),
    restoreFiles: () => process.restoreFiles(),
    logTail: (bytes) => process.logTail(bytes),
    close: () => {
      stop.close();
      process.close();
    },
  };
}
