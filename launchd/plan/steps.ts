/** The steps of install, upgrade and uninstall. Each is safe to repeat. */
import type { EntryOwner, InstallEntry } from "./entries.ts";

export type InstallStep =
  | { readonly do: "create account"; readonly name: string }
  | { readonly do: "remove account"; readonly name: string }
  | { readonly do: "stage"; readonly version: string }
  | { readonly do: "make"; readonly entry: InstallEntry; readonly because: "missing" | "differs" }
  | { readonly do: "remember"; readonly previous: string }
  | { readonly do: "switch"; readonly version: string }
  /** Marks a version that has served as a candidate for rollbacks. */
  | { readonly do: "approve"; readonly version: string }
  | { readonly do: "load" }
  | { readonly do: "reload" }
  | { readonly do: "restart" }
  | { readonly do: "kill" }
  | { readonly do: "unload" }
  | { readonly do: "forget" }
  | { readonly do: "stop engines"; readonly count: number | undefined }
  | { readonly do: "remove"; readonly path: string; readonly owner: EntryOwner }
  /** For a folder that may hold files of other programs. */
  | { readonly do: "remove if empty"; readonly path: string };

/** Describes a step for `--dry-run` and for the terminal. Pure. */
export function describeStep(step: InstallStep): string {
  switch (step.do) {
    case "create account":
      return `create the account ${step.name}`;
    case "remove account":
      return `remove the account ${step.name}`;
    case "stage":
      return `copy version ${step.version}`;
    case "make":
      return `${step.because === "missing" ? "create" : "correct"} ${step.entry.path}`;
    case "remember":
      return `keep version ${step.previous} for a rollback`;
    case "switch":
      return `switch to version ${step.version}`;
    case "approve":
      return `version ${step.version} serves`;
    case "load":
      return "start the agent";
    case "reload":
      return "start the agent with its new definition";
    case "restart":
      return "restart the agent; its engines keep running";
    case "kill":
      return "kill the agent that does not serve";
    case "unload":
      return "stop the agent";
    case "forget":
      return "remove the service";
    case "stop engines":
      return `drain and stop ${step.count ?? "the"} engine${step.count === 1 ? "" : "s"}`;
    case "remove":
    case "remove if empty":
      return `remove ${step.path}`;
    default:
      return step satisfies never;
  }
}
