/** An engine driver's description of its shared daemon and of the models in it. */

import type { ProcessCommand } from "../../../src/supervise/supervised.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { Instance, InstanceTarget } from "../instance.ts";
import type { ProcessInstances } from "../process/process-instance.ts";

export interface LoadedModel {
  readonly model: string;
  /** Memory of the model, as the daemon reports it. */
  readonly bytes: number;
}

/** Client of the daemon's API. Each call is safe to repeat, and rejects after a bounded time. */
export interface DaemonApi {
  /** All loaded models, including those of other clients. Rejects if another program answers on the port. */
  readonly loaded: () => Promise<readonly LoadedModel[]>;
  /** May take minutes, until the signal aborts it. A MetalbridgeError means that the daemon refuses the model; other errors are retried. */
  readonly load: (model: string, signal: AbortSignal) => Promise<void>;
  /** Resolves once the model is out of memory. */
  readonly unload: (model: string) => Promise<void>;
}

/** One daemon per name on a host; the name is also its folder. */
export interface DaemonSpec {
  readonly name: string;
  readonly api: (target: InstanceTarget) => DaemonApi;
  /** Address of a daemon that was found running: it is used, and never started, stopped or killed. */
  readonly found?: InstanceTarget;
  /** File with the API key, if the agent's own daemon requires one. */
  readonly keyFile?: string;
  /** Models are loaded into the daemon's own process, so its footprint includes them. */
  readonly isOneProcess?: true;
  /** How to start the daemon on the first free loopback port of the range; not needed for adoption. */
  readonly start?: {
    readonly ports: readonly [number, number];
    /** Called once for each start, while none runs. */
    readonly command: (port: number) => DaemonCommand | Promise<DaemonCommand>;
  };
}

type DaemonCommand = Pick<ProcessCommand, "argv" | "env">;

/** A model by its name in the daemon, and the reservation of the replica that refers to it. */
export interface ModelReference {
  readonly model: string;
  readonly record: Readonly<Record<string, unknown>>;
  /** Set if the daemon can serve these weights under only one name at a time. */
  readonly weights?: string;
  /** Downloads the model to the daemon's disk before the load. Rejects like `DaemonApi.load`. */
  readonly prepare?: (target: InstanceTarget, signal: AbortSignal) => Promise<void>;
}

export interface DaemonPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly processes: ProcessInstances;
  readonly folder: string;
}

/** A reference, as its daemon and the other references see it. */
export interface DaemonUser {
  readonly handle: { readonly daemon: string; readonly model: string; readonly weights?: string };
  readonly uses: (process: Instance | undefined) => boolean;
  /** The daemon no longer has the model for this reference. */
  readonly hasEnded: () => boolean;
  /** The deadline of its stop has passed. */
  readonly isOverdue: () => boolean;
  /** Called when the state of the daemon's process has changed. */
  readonly changed: () => void;
}
