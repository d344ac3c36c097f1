/** What the rest of the agent sees of one engine process, its own or adopted. */
import type { Clock, Log } from "../../src/ports.ts";
import type { IdentityReader } from "./identity/living-process.ts";
import type { RotationLimits } from "./log-rotation.ts";

/** How the main process ended: an exit code, or the signal that ended it. */
export interface ExitRecord {
  readonly code?: number;
  readonly signal?: string;
}

/**
 * starting: the keeper lives and has not written the pid. running: the main process lives.
 * ended: it has ended, but something it started may live. gone: nothing is left.
 * "unknown": the keeper was killed, so nobody took the exit status.
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
}

/** Called on each change of state, within milliseconds; never for the state that start or adopt returned. */
export type OnChange = (state: ProcessState) => void;

export interface EngineProcess {
  readonly dir: string;
  readonly state: () => ProcessState;
  /** Signals the main process, if pid and start time still match; the answer says whether a signal was sent. */
  readonly signal: (signal: "TERM" | "KILL") => "sent" | "not running";
  /** Ends with KILL whatever is left of the engine's session, the keeper included: only after `ended`, or as a last resort. */
  readonly killGroup: () => void;
  /** Writes down again who runs here, where somebody has removed that; answers whether anything was missing. */
  readonly restoreFiles: () => boolean;
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
  /** When logs are rotated; looked at as often as the sweep runs. */
  readonly logLimits?: RotationLimits;
}
