/** One engine process, started by this agent or adopted. */
import type { ChildProcess } from "node:child_process";
import type { Activity, IdentityReader } from "../../../src/macos/living-process.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { ExitRecord } from "../instance.ts";
import type { RotationLimits } from "../run-files/log-rotation.ts";

/**
 * starting: the shim is running and has not written the pid yet. running: the main process is alive. ended: the main process
 * has exited, but its children may still run. gone: no process is left. An exit is "unknown" if the shim was killed before it
 * recorded the status.
 */
export type ProcessState =
  | { readonly at: "starting" }
  | { readonly at: "running"; readonly pid: number; readonly startTime: string }
  | { readonly at: "ended"; readonly exit: ExitRecord | "unknown" }
  | { readonly at: "gone"; readonly exit: ExitRecord | "unknown" };

/** The command to start. `env` is the engine's complete environment; `record` is saved in `engine.json`. */
export interface EngineCommand {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly record: object;
  /** The engine runs in a terminal that users can attach to; the main process is then the terminal's. */
  readonly tty?: boolean;
  /** Opens Node's IPC channel to a Node program that is started; called with this process's end of it. */
  readonly onChannel?: (child: ChildProcess) => void;
}

/** Called within milliseconds of each change of state, but not for the state that start or adopt returned. */
export type OnChange = (state: ProcessState) => void;

/** "unknown": no signal was sent, because the identity of the process could not be read. */
export type SignalResult = "sent" | "not running" | "unknown";

export interface EngineProcess {
  readonly dir: string;
  readonly state: () => ProcessState;
  /** Signals the main process if its pid and start time still match. */
  readonly signal: (signal: "TERM" | "KILL") => Promise<SignalResult>;
  /** Kills every remaining process of the engine's session, including the shim: only after `ended`, or as a last resort. */
  readonly killGroup: () => void;
  /** Restores the run directory's files if they were removed; returns whether any was missing. */
  readonly restoreFiles: () => boolean;
  readonly activity: () => Promise<Activity>;
  /** The program in the terminal of the main process; undefined if there is none. */
  readonly innerPid: () => number | undefined;
  readonly logTail: (bytes: number) => Promise<string>;
  /** Stops watching; the engine keeps running. */
  readonly close: () => void;
}

/** Starts and adopts engines. `adoptEngine` resolves to undefined if no engine was ever started. */
export interface EngineProcesses {
  readonly startEngine: (dir: string, command: EngineCommand, onChange: OnChange) => Promise<EngineProcess>;
  readonly adoptEngine: (dir: string, onChange: OnChange) => Promise<EngineProcess | undefined>;
}

export interface ProcessPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly identity: IdentityReader;
  /** Interval of comparing pid and start time, the fallback behind the FIFOs. */
  readonly sweepMs?: number;
  /** Limits of log rotation, checked on every sweep. */
  readonly logLimits?: RotationLimits;
}
