/** The ports of install, upgrade, uninstall and the service commands. */
import type { Clock } from "../src/util/ports.ts";
import type { Accounts } from "./account/account.ts";
import type { ManagedJob } from "./plan/observed.ts";

export interface InstallPorts {
  readonly clock: Clock;
  readonly euid: number;
  readonly supervisor: ServiceManager;
  readonly accounts: Accounts;
  /** Number of running engines of a state folder; undefined if the folder cannot be read. */
  readonly countEngines: (stateDir: string) => Promise<number | undefined>;
  /** Prints one line for the user. */
  readonly print: (line: string) => void;
}

/** launchd or systemd. */
export interface ServiceManager {
  /** Throws ServiceLoadFailed if the service manager gives no usable output. */
  readonly observe: () => Promise<ManagedJob>;
  /** Starts the service now and at each boot, if it is not loaded yet. Resolves when it is loaded. */
  readonly load: () => Promise<void>;
  /** Replaces the process, or loads the service if it is not loaded. */
  readonly restart: () => Promise<void>;
  /** Ends the process with SIGKILL, which a hanging program cannot ignore. Engines keep running. */
  readonly kill: () => Promise<void>;
  /** Resolves when the service manager has unloaded the service (launchd) or stopped it (systemd). */
  readonly unload: () => Promise<void>;
  /** Disables the start at boot. Must be called before the definition is removed. */
  readonly forget: () => Promise<void>;
}
