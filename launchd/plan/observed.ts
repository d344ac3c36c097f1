/** What is on the machine, as far as an installation is concerned. */
import type { AgentReply } from "../../src/api/agent-answer.ts";
import type { InstallEntry } from "./entries.ts";

/** The service manager's view of our label or unit. Codes and states are its own words. */
export type ManagedJob =
  | { readonly at: "absent"; readonly isDisabled: boolean }
  | {
      readonly at: "loaded";
      readonly isDisabled: boolean;
      /** The definition that was loaded. */
      readonly path: string | undefined;
      readonly state: string;
      readonly pid: number | undefined;
      /** Starts so far. */
      readonly runs: number | undefined;
      /** Exit code or signal of the last run, such as "0", "78: EX_CONFIG" or "Terminated: 15". */
      readonly lastExit: string | undefined;
      /** True when it stops and will be gone: bootout is asynchronous. */
      readonly isLeaving: boolean;
    };

/** Starts so far; undefined where the service manager does not say. */
export function runsOf(job: ManagedJob): number | undefined {
  return job.at === "loaded" ? job.runs : 0;
}

export type ObservedAgent =
  | { readonly at: "none" }
  /** Another user's socket, or no answer in time: no reason to act. */
  | { readonly at: "unknown"; readonly why: string }
  | { readonly at: "old"; readonly pid: number }
  | ({ readonly at: "answers" } & AgentReply);

export type EntryState =
  | { readonly is: "as wanted" }
  | { readonly is: "missing" }
  /** In a folder that only root and the agent's account may enter. */
  | { readonly is: "unreadable" }
  /** `isOurs`: what stands there names our program, or is a folder or link. */
  | {
      readonly is: "different";
      readonly what: "kind" | "text" | "owner" | "target";
      readonly isOurs: boolean;
    };

export interface ObservedInstallation {
  readonly account: "present" | "missing" | "incomplete" | "none wanted";
  /** Complete ones: a version appears by one rename, and the one to install is checked file by file. */
  readonly versions: readonly string[];
  /** What interrupted runs left in the versions folder, and a damaged version. */
  readonly partials: readonly string[];
  readonly current: string | undefined;
  readonly previous: string | undefined;
  /** Versions that have served: a rollback goes to no other. */
  readonly proven: readonly string[];
  readonly entries: readonly { readonly entry: InstallEntry; readonly state: EntryState }[];
  readonly job: ManagedJob;
  readonly agent: ObservedAgent;
  /** Engines that live in the state folder, whoever started them; undefined where the folder may not be read. */
  readonly engines: number | undefined;
}
