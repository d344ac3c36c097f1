/** Classifies failures of `launchctl bootstrap`, which exits with 5 for most causes, by the state of the machine. Pure. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NO_DOMAIN } from "../../src/macos/launchctl.ts";
import type { ManagedJob } from "../plan/observed.ts";

export interface BootstrapFacts {
  readonly exitCode: number;
  readonly definition: string;
  /** The job after the failure. */
  readonly job: ManagedJob;
  /** The message of plutil; undefined if the plist is well-formed or plutil could not run. */
  readonly plistFault: string | undefined;
  readonly file: { readonly uid: number; readonly mode: number } | undefined;
  /** Required owner of the file: root in the system domain. */
  readonly ownerUid: number;
  readonly euid: number;
  readonly domain: string;
}

/** An error is final. leaving: wait until the job is unloaded, and retry. disabled: enable the label, and retry. */
export type BootstrapFailure = "loaded" | "leaving" | "disabled" | "retry" | MetalbridgeError;

const WRITABLE_BY_OTHERS = 0o022;

/** Checks the most specific cause first. */
export function classifyBootstrap(facts: BootstrapFacts): BootstrapFailure {
  const { job, definition, domain, exitCode } = facts;
  if (domain === "system" && facts.euid !== 0)
    return new MetalbridgeError("RootRequired", "only root can change launchd's system domain");
  if (exitCode === NO_DOMAIN)
    return new MetalbridgeError(
      "ServiceLoadFailed",
      `launchd has no domain ${domain}: no user is logged in at the screen`,
    );
  if (job.at === "loaded" && job.isLeaving) return "leaving";
  if (job.at === "loaded" && job.path !== undefined && job.path !== definition)
    return new MetalbridgeError("ServiceForeign", `launchd already has this label, loaded from ${job.path}`);
  if (job.at === "loaded") return "loaded";
  const fault = fileFault(facts);
  if (fault !== undefined) return new MetalbridgeError("ServiceLoadFailed", fault);
  return job.isDisabled ? "disabled" : "retry";
}

function fileFault({ file, definition, ownerUid, plistFault }: BootstrapFacts): string | undefined {
  if (file === undefined) return `${definition} does not exist`;
  if (file.uid !== ownerUid) return `${definition} belongs to uid ${file.uid}, not to ${ownerUid}`;
  if ((file.mode & WRITABLE_BY_OTHERS) === 0) return plistFault;
  return `${definition} can be written by others (mode ${file.mode.toString(8)})`;
}
