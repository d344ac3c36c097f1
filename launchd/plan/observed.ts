/** The observed state of an installation. */

import type { AgentStatus } from "../../src/api/agent-status.ts";
import type { InstallEntry } from "./entries.ts";

/** The state of our label or unit in the service manager, with the manager's own codes and states. */
export type ManagedJob =
  | { readonly at: "absent"; readonly isDisabled: boolean }
  | {
      readonly at: "loaded";
      readonly isDisabled: boolean;
      /** Path of the loaded definition. */
      readonly path: string | undefined;
      readonly state: string;
      readonly pid: number | undefined;
      /** Number of starts. */
      readonly runs: number | undefined;
      /** Exit code or signal of the last run, such as "0", "78: EX_CONFIG" or "Terminated: 15". */
      readonly lastExit: string | undefined;
      /** True while the job stops and is being unloaded, because bootout is asynchronous. */
      readonly isLeaving: boolean;
    };

/** Number of starts; undefined if the service manager does not report it. */
export function runsOf(job: ManagedJob): number | undefined {
  return job.at === "loaded" ? job.runs : 0;
}

export type ObservedAgent =
  | { readonly at: "none" }
  /** The socket belongs to another user, or did not answer in time. No step depends on it. */
  | { readonly at: "unknown"; readonly why: string }
  | ({ readonly at: "answers" } & AgentStatus);

export type EntryState =
  | { readonly is: "correct" }
  | { readonly is: "missing" }
  /** In a folder that only root and the agent's account may enter. */
  | { readonly is: "unreadable" }
  /** `isOurs`: the existing file names our program, or it is a folder or link. */
  | {
      readonly is: "different";
      readonly what: "kind" | "text" | "owner" | "target";
      readonly isOurs: boolean;
    };

export interface ObservedInstallation {
  readonly account: "present" | "missing" | "incomplete" | "not needed";
  /** Complete versions: a version appears by one rename, and the version to install is checked file by file. */
  readonly versions: readonly string[];
  /** Leftovers of interrupted runs in the versions folder, and a damaged version. */
  readonly partials: readonly string[];
  readonly current: string | undefined;
  readonly previous: string | undefined;
  /** Versions that have served. A rollback goes only to one of these. */
  readonly proven: readonly string[];
  readonly entries: readonly { readonly entry: InstallEntry; readonly state: EntryState }[];
  readonly job: ManagedJob;
  readonly agent: ObservedAgent;
  /** Number of running engines of the state folder; undefined if the folder may not be read. */
  readonly engines: number | undefined;
}
