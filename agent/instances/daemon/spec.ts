/** What an engine's driver says of its shared daemon and of the models in it. */
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { Instance, InstanceTarget } from "../instance.ts";
import type { EngineCommand } from "../process/engine-process.ts";
import type { ProcessInstances } from "../process/process-instance.ts";

export interface LoadedModel {
  readonly model: string;
  /** What it takes of the host's memory, by the daemon's own account. */
  readonly bytes: number;
}

/** The daemon's own interface. Each call is safe to repeat, and gives up in bounded time, by rejecting. */
export interface DaemonApi {
  /** Everything in memory now, whoever loaded it. Rejects where another program answers on the port. */
  readonly loaded: () => Promise<readonly LoadedModel[]>;
  /** May take minutes; the signal ends it. A MetalbridgeError says that the daemon refuses the model; other errors are retried. */
  readonly load: (model: string, signal: AbortSignal) => Promise<void>;
  /** Resolves once the model is out of memory. */
  readonly unload: (model: string) => Promise<void>;
}

/** One daemon per name on a host; the name is also its folder. */
export interface DaemonSpec {
  readonly name: string;
  readonly api: (target: InstanceTarget) => DaemonApi;
  /** Where a daemon listens that was found running: it is used, and never started, stopped or killed. */
  readonly found?: InstanceTarget;
  /** Holds the key that one of our own asks for. */
  readonly keyFile?: string;
  /** Models are loaded into the daemon's own process, so its footprint includes them. */
  readonly isOneProcess?: true;
  /** How to start one of our own, on the first free port of loopback in the range; adoption needs none. */
  readonly start?: {
    readonly ports: readonly [number, number];
    /** Called once for each start, while none runs. */
    readonly command: (port: number) => DaemonCommand | Promise<DaemonCommand>;
  };
}

type DaemonCommand = Pick<EngineCommand, "argv" | "env">;

/** A model, by the name its daemon has for it, and the reservation of the replica that refers to it. */
export interface ModelReference {
  readonly model: string;
  readonly record: Readonly<Record<string, unknown>>;
  /** The daemon serves these weights under one name at a time; absent: under any number. */
  readonly weights?: string;
  /** Brings the model to the daemon's disk, before the load; on the same terms as `DaemonApi.load`. */
  readonly prepare?: (target: InstanceTarget, signal: AbortSignal) => Promise<void>;
}

export interface DaemonPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly processes: ProcessInstances;
  readonly folder: string;
}

/** A reference as its daemon and the daemon's other references see it. */
export interface DaemonUser {
  readonly handle: { readonly daemon: string; readonly model: string; readonly weights?: string };
  readonly uses: (process: Instance | undefined) => boolean;
  /** The daemon no longer has the model on its account. */
  readonly hasEnded: () => boolean;
  /** Its time to stop is up. */
  readonly isOverdue: () => boolean;
  /** The daemon's process has changed its state. */
  readonly changed: () => void;
}
