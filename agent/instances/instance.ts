/** One running engine as the rest of the agent sees it: a process of its own, or a model that a shared daemon has loaded. */
import type { ErrorCode } from "../../src/api/errors.ts";
import type { Activity } from "../../src/macos/living-process.ts";
import type { Log } from "../../src/util/ports.ts";

/** How it ended: the main process's exit code, or the signal that killed it, or a reason that the instance itself knows. */
export interface ExitRecord {
  readonly code?: number;
  readonly signal?: string;
  /** Nothing exited: a shared daemon refused the model. */
  readonly because?: { readonly code: ErrorCode; readonly message: string };
}

/** What was asked of an instance: to stop by a deadline, or to end at once. The second replaces the first, never the other way round. */
export type StopMode = "stopping" | "killing";

/**
 * starting: it is being launched; with `isLoading` its process runs, and a shared daemon brings the model into memory, which may
 * take minutes. running: it can be probed. ended: the engine itself has exited, something it started may
 * still run. gone: nothing is left. An exit is "unknown" where nothing recorded the exit status.
 */
export type InstanceState =
  | { readonly at: "starting"; readonly isLoading?: true; readonly ending?: StopMode }
  | { readonly at: "running"; readonly pid?: number; readonly ending?: StopMode }
  | { readonly at: "ended"; readonly exit: ExitRecord | "unknown"; readonly ending?: StopMode }
  | { readonly at: "gone"; readonly exit: ExitRecord | "unknown" };

/** Where an instance answers: always loopback, so that a lost network is not a hung engine. */
export interface InstanceTarget {
  readonly host: string;
  readonly port: number;
  /** The name that requests must give; absent where it answers to any. */
  readonly modelAlias?: string;
  /** Holds the key that a shared daemon asks for. */
  readonly keyFile?: string;
  /** What its driver keeps to ask it. */
  readonly own?: unknown;
}

/** Where a replica's instance keeps its files, and who hears of its changes. */
export interface InstanceContext {
  readonly dir: string;
  readonly log: Log;
  /** Called on each change of state, within milliseconds; never for the state that open or adopt returned. */
  readonly onChange: () => void;
}

export interface Instance {
  readonly state: () => InstanceState;
  readonly target: InstanceTarget;
  /** Kept in engine.json beside the reservation, and handed back on adoption. */
  readonly handle: Readonly<Record<string, unknown>>;
  /** The file it logs to; it may be rotated at any time. */
  readonly logPath: string;
  /** Requests that something in front of the engine counts, exactly. Absent: only the engine can say. */
  readonly inFlight?: () => Promise<number | "unknown">;
  /** Lets clients in: the engine was proven, or is not to stop after all. Absent: nothing in front of the engine holds them off. */
  readonly letIn?: () => Promise<void>;
  /** Why clients cannot reach it through what is in front of it; undefined where they can. Absent: nothing is. */
  readonly routeProblem?: () => Promise<string | undefined>;
  /** Files with keys or certificates have changed. */
  readonly filesChanged?: () => void;
  /** Asks clients to go elsewhere: from now on every response ends its connection. Absent: nothing in front of the engine can. */
  readonly leave?: () => void;
  /** Asks it to stop, more firmly as the deadline (monotonic ms) comes; from then on as `endNow`. An earlier deadline counts. */
  readonly stopBy: (deadlineMs: number) => void;
  /** Kills it and all that it started, and repeats that until nothing is left. */
  readonly endNow: () => void;
  /** Bytes of memory it really takes; undefined where that cannot be read. */
  readonly footprintBytes: () => Promise<number | undefined>;
  /** What its process does right now; a stopped or sleeping one is not slow. */
  readonly activity: () => Promise<Activity>;
  /** Writes again what the next agent needs to adopt it, where those files were removed; true if any was missing. */
  readonly restoreFiles: () => boolean;
  readonly logTail: (bytes: number) => Promise<string>;
  /** Stops watching; the engine runs on. */
  readonly close: () => void;
}
