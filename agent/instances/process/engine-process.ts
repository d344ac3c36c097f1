/** What the rest of the agent sees of one engine process, its own or adopted. */
import type { ChildProcess } from "node:child_process";
import type { Activity, IdentityReader } from "../../../src/macos/living-process.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { ExitRecord } from "../instance.ts";
import type { RotationLimits } from "../run-files/log-rotation.ts";

/**
 * starting: the shim is running and has not written the pid yet. running: the main process is alive.
 * ended: the main process has exited, but its children may still run. gone: nothing is left.
 * "unknown": the shim was killed, so the exit status was not recorded.
 */
export type ProcessState =
  | { readonly at: "starting" }
  | { readonly at: "running"; readonly pid: number; readonly startTime: string }
  | { readonly at: "ended"; readonly exit: ExitRecord | "unknown" }
  | { readonly at: "gone"; readonly exit: ExitRecord | "unknown" };

/** What to start. `env` is the whole environment of the engine; `record` is kept in `engine.json`. */
export interface EngineCommand {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly record: object;
  /** It runs in a terminal of its own, which one can attach to; the main process is then the terminal's. */
  readonly tty?: boolean;
  /** Opens Node's channel between this process and a Node program that is started; called with this end of it. */
  readonly onChannel?: (child: ChildProcess) => void;
}

/** Called on each change of state, within milliseconds; never for the state that start or adopt returned. */
export type OnChange = (state: ProcessState) => void;

/** "unknown": none was sent, for whether the process is the one that was meant could not be read. */
export type SignalResult = "sent" | "not running" | "unknown";

export interface EngineProcess {
  readonly dir: string;
  readonly state: () => ProcessState;
  /** Signals the main process, if pid and start time still match; the answer says whether a signal was sent. */
  readonly signal: (signal: "TERM" | "KILL") => Promise<SignalResult>;
  /** Ends with KILL whatever is left of the engine's session, the shim included: only after `ended`, or as a last resort. */
  readonly killGroup: () => void;
  /** Restores the run directory's files if they were removed; returns whether any was missing. */
  readonly restoreFiles: () => boolean;
  readonly activity: () => Promise<Activity>;
  /** The program in the terminal that the main process keeps; undefined where there is none. */
  readonly innerPid: () => number | undefined;
  readonly logTail: (bytes: number) => Promise<string>;
  /** Stops watching; the engine runs on. */
  readonly close: () => void;
}

/** Starts and adopts engines. Adopting answers undefined where no engine was ever started. */
export interface EngineProcesses {
  readonly startEngine: (dir: string, command: EngineCommand, onChange: OnChange) => Promise<EngineProcess>;
  readonly adoptEngine: (dir: string, onChange: OnChange) => Promise<EngineProcess | undefined>;
}

export interface ProcessPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly identity: IdentityReader;
  /** How often pid and start time are compared, the second line behind the FIFOs. */
  readonly sweepMs?: number;
  /** When logs are rotated; checked on every sweep. */
  readonly logLimits?: RotationLimits;
}
