/** What install and its sisters act with. */
import type { Clock } from "../src/util/ports.ts";
import type { Accounts } from "./account/account.ts";
import type { ManagedJob } from "./plan/observed.ts";

export interface InstallPorts {
  readonly clock: Clock;
  readonly euid: number;
  readonly supervisor: Supervisor;
  readonly accounts: Accounts;
  /** Living engines in a state folder; undefined when it cannot be read. */
  readonly countEngines: (stateDir: string) => Promise<number | undefined>;
  /** One line for a person. */
  readonly print: (line: string) => void;
}

/** launchd or systemd. */
export interface Supervisor {
  /** Throws ServiceLoadFailed when the service manager gives no usable answer. */
  readonly observe: () => Promise<ManagedJob>;
  /** Starts the service, also at boot from now on; resolves when it is loaded. Nothing to do when it is loaded already. */
  readonly load: () => Promise<void>;
  /** Ends the old process and starts one. Not loaded: loads. */
  readonly restart: () => Promise<void>;
  /** Ends the process with SIGKILL, which a program that hangs cannot ignore. Engines run on. */
  readonly kill: () => Promise<void>;
  /** Resolves when the service manager knows nothing of it any more, or when it is stopped (systemd). */
  readonly unload: () => Promise<void>;
  /** Before the definition is removed: it no longer starts at boot. */
  readonly forget: () => Promise<void>;
}
