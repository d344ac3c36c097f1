/** One process that outlives its supervisor: started by this one, or adopted from an earlier one. */
import type { ChildProcess } from "node:child_process";
import type { Activity, IdentityReader } from "../macos/living-process.ts";
import type { Clock, Log } from "../util/ports.ts";
import type { RotationLimits } from "./log-rotation.ts";

/** The end of a process: its exit code, or the signal that killed it. */
export interface ProcessExit {
  readonly code?: number;
  readonly signal?: string;
}

/**
 * starting: the shim is running and has not written the pid yet. running: the main process is alive. ended: the main process
 * has exited, but its children may still run. gone: no process is left. An exit is "unknown" if the shim was killed before it
 * recorded the status.
 */
export type ProcessState =
  | { readonly at: "starting" }
  | { readonly at: "running"; readonly pid: number; readonly startTime: string }
  | { readonly at: "ended"; readonly exit: ProcessExit | "unknown" }
  | { readonly at: "gone"; readonly exit: ProcessExit | "unknown" };

/** The command to start. `env` is the complete environment; `record` is saved in `engine.json` before the start. */
export interface ProcessCommand {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly record?: object;
  /** Called in the run directory without the files of an earlier run; starts the result instead, for example in a terminal. */
  readonly prepare?: () => Pick<ProcessCommand, "argv" | "env">;
  /** Opens Node's IPC channel to a Node program that is started; called with this process's end of it. */
  readonly onChannel?: (child: ChildProcess) => void;
}

/** Called within milliseconds of each change of state, but not for the state that start or adopt returned. */
export type OnChange = (state: ProcessState) => void;

/** "unknown": no signal was sent, because the identity of the process could not be read. */
export type SignalResult = "sent" | "not running" | "unknown";

export interface SupervisedProcess {
  readonly dir: string;
  readonly state: () => ProcessState;
  /** Signals the main process if its pid and start time still match. */
  readonly signal: (signal: "TERM" | "KILL") => Promise<SignalResult>;
  /** Kills every remaining process of the session, including the shim: only after `ended`, or as a last resort. */
  readonly killGroup: () => void;
  /** Restores the run directory's files if they were removed; returns whether any was missing. */
  readonly restoreFiles: () => boolean;
  readonly activity: () => Promise<Activity>;
  /** The program that the main process runs, for example in a terminal; undefined if there is none. */
  readonly innerPid: () => number | undefined;
  readonly logTail: (bytes: number) => Promise<string>;
  /** Stops watching; the process keeps running. */
  readonly close: () => void;
}

/** Starts and adopts processes, one per run directory. `adopt` resolves to undefined if none was ever started there. */
export interface Supervisor {
  readonly start: (dir: string, command: ProcessCommand, onChange: OnChange) => Promise<SupervisedProcess>;
  readonly adopt: (dir: string, onChange: OnChange) => Promise<SupervisedProcess | undefined>;
}

export interface SupervisorPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly identity: IdentityReader;
  /** Interval of comparing pid and start time, the fallback behind the FIFOs. */
  readonly sweepMs?: number;
  /** Limits of log rotation, checked on every sweep. */
  readonly logLimits?: RotationLimits;
}
