/** One running engine, as the rest of the agent sees it: a separate process, or a model in a shared daemon. */
import type { ErrorCode } from "../../src/api/errors.ts";
import type { LoadReading } from "../../src/engines/live-performance.ts";
import type { Activity } from "../../src/macos/living-process.ts";
import type { StopMode } from "../../src/supervise/stop.ts";
import type { ProcessExit } from "../../src/supervise/supervised.ts";
import type { Log } from "../../src/util/ports.ts";

/** Exit of an engine: that of the main process, or a reason that the instance reports. */
export interface ExitRecord extends ProcessExit {
  /** Nothing exited: a shared daemon refused the model. */
  readonly because?: { readonly code: ErrorCode; readonly message: string };
}

export type { StopMode };

/**
 * starting: the process is being launched; with `isLoading` a shared daemon is loading the model, which may take minutes.
 * running: the engine can be probed. ended: the engine has exited, but a process that it started may still run. gone: no
 * process is left. An exit is "unknown" if its status was not recorded.
 */
export type InstanceState =
  | { readonly at: "starting"; readonly isLoading?: true; readonly ending?: StopMode }
  | { readonly at: "running"; readonly pid?: number; readonly ending?: StopMode }
  | { readonly at: "ended"; readonly exit: ExitRecord | "unknown"; readonly ending?: StopMode }
  | { readonly at: "gone"; readonly exit: ExitRecord | "unknown" };

/** Address of an instance: always loopback, so that a lost network does not look like a hung engine. */
export interface InstanceTarget {
  readonly host: string;
  readonly port: number;
  /** Model name that requests must contain; absent if the engine accepts any name. */
  readonly modelAlias?: string;
  /** File with the API key that a shared daemon requires. */
  readonly keyFile?: string;
  /** Data that only the driver reads, for its requests to the instance. */
  readonly own?: unknown;
}

/** The folder of a replica's instance, and the callback for its changes. */
export interface InstanceContext {
  readonly dir: string;
  readonly log: Log;
  /** Called within milliseconds of each change of state, but not for the state that open or adopt returned. */
  readonly onChange: () => void;
}

/** The route of an engine in the gate. */
export interface RouteCheck {
  /** Why clients cannot reach the engine through the gate; absent if they can. */
  readonly problem?: string;
  /** Absent if the gate does not have the route. */
  readonly load?: Omit<LoadReading, "at">;
}

export interface Instance {
  readonly state: () => InstanceState;
  readonly target: InstanceTarget;
  /** Saved in engine.json with the reservation, and passed back on adoption. */
  readonly handle: Readonly<Record<string, unknown>>;
  /** The engine's log file; it may be rotated at any time. */
  readonly logPath: string;
  /** Exact number of requests in flight, counted by the gate. Absent if there is no gate. */
  readonly inFlight?: () => Promise<number | "unknown">;
  /** Opens the gate for clients: the engine was proven, or its stop was canceled. Absent if there is no gate. */
  readonly admitClients?: () => Promise<void>;
  /** Reads the engine's route in the gate. Absent if there is no gate. */
  readonly checkRoute?: () => Promise<RouteCheck>;
  /** Notifies the gate that files with keys or certificates have changed. */
  readonly filesChanged?: () => void;
  /** Stops keeping connections alive (lame duck): from now on every response closes its connection. Absent if there is no gate. */
  readonly leave?: () => void;
  /** Asks the engine to stop, repeatedly until the deadline (monotonic ms), and then kills it. The earliest deadline wins. */
  readonly stopBy: (deadlineMs: number) => void;
  /** Kills the engine and every process that it started, repeatedly until none is left. */
  readonly killNow: () => void;
  /** Memory that the engine actually uses, in bytes; undefined if it cannot be read. */
  readonly footprintBytes: () => Promise<number | undefined>;
  /** Current activity of the process: a stopped or sleeping process is not merely slow. */
  readonly activity: () => Promise<Activity>;
  /** Restores removed files that the next agent needs to adopt the engine; true if any was missing. */
  readonly restoreFiles: () => boolean;
  readonly logTail: (bytes: number) => Promise<string>;
  /** Stops watching; the engine keeps running. */
  readonly close: () => void;
}
