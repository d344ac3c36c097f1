/** Why `launchctl bootstrap` failed: it answers 5 to most causes, so the machine is asked. Pure. */
import type { ManagedJob } from "../plan/observed.ts";
import { NO_DOMAIN } from "./print.ts";

export interface BootstrapFacts {
  readonly exitCode: number;
  /** Its first line. */
  readonly said: string;
  readonly definition: string;
  /** Observed after the failure. */
  readonly job: ManagedJob;
  /** What plutil says against the plist; undefined when it is well-formed or plutil could not be asked. */
  readonly plistFault: string | undefined;
  readonly file: { readonly uid: number; readonly mode: number } | undefined;
  /** Who must own it: root in the system domain. */
  readonly ownerUid: number;
  readonly euid: number;
  readonly domain: string;
}

export type BootstrapFailure =
  | { readonly do: "nothing" }
  | { readonly do: "wait until gone" }
  | { readonly do: "enable" }
  | { readonly do: "retry"; readonly why: string }
  | {
      readonly do: "fail";
      readonly code: "RootRequired" | "ServiceForeign" | "ServiceLoadFailed";
      readonly why: string;
    };

const WRITABLE_BY_OTHERS = 0o022;

/** The most specific cause first. */
export function classifyBootstrap(facts: BootstrapFacts): BootstrapFailure {
  const { job, definition, domain, exitCode, said } = facts;
  if (domain === "system" && facts.euid !== 0)
    return fail("RootRequired", "launchd's system domain can be changed by root only");
  if (exitCode === NO_DOMAIN)
    return fail(
      "ServiceLoadFailed",
      `launchd has no domain ${domain} here: no user is logged in at the screen`,
    );
  if (job.at === "loaded" && job.isLeaving) return { do: "wait until gone" };
  if (job.at === "loaded" && job.path !== undefined && job.path !== definition)
    return fail("ServiceForeign", `launchd has this label already, loaded from ${job.path}`);
  if (job.at === "loaded") return { do: "nothing" };
  return fileFault(facts) ?? (job.isDisabled ? { do: "enable" } : { do: "retry", why: said });
}

function fileFault({ file, definition, ownerUid, plistFault }: BootstrapFacts): BootstrapFailure | undefined {
  if (file === undefined) return fail("ServiceLoadFailed", `${definition} does not exist`);
  if (file.uid !== ownerUid)
    return fail("ServiceLoadFailed", `${definition} belongs to uid ${file.uid}, not to ${ownerUid}`);
  if ((file.mode & WRITABLE_BY_OTHERS) !== 0)
    return fail(
      "ServiceLoadFailed",
      `${definition} can be written by others (mode ${file.mode.toString(8)})`,
    );
  return plistFault === undefined ? undefined : fail("ServiceLoadFailed", plistFault);
}

function fail(code: "RootRequired" | "ServiceForeign" | "ServiceLoadFailed", why: string): BootstrapFailure {
  return { do: "fail", code, why };
}
