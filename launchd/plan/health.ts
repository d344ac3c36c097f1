/** Whether the version that was just started works. Pure. */
import type { Agent, Job } from "./observed.ts";

export interface Seen {
  readonly atMs: number;
  readonly agent: Agent;
  readonly job: Job;
}

export interface Expected {
  readonly version: string;
  /** Troubles that are no fault of this version: the one before had them too. Undefined: any. */
  readonly knownTroubles: readonly string[] | undefined;
  /** Starts before this one; undefined when the service manager had none to report. */
  readonly runsBefore: number | undefined;
}

export type Verdict =
  | { readonly is: "healthy" }
  | { readonly is: "waiting"; readonly why: string }
  | { readonly is: "failed"; readonly why: string };

/** It has to answer as healthy, by one process, for this long. */
export const SETTLED_MS = 1_000;
/** The one that we made, and one that the service manager made after a crash. */
const RESTARTS_OF_A_CRASH = 2;

/** `since` is when this process was first seen healthy, of the readings before. */
export function judge(
  expected: Expected,
  seen: Seen,
  since: { readonly pid: number; readonly atMs: number } | undefined,
): Verdict {
  const { agent, job } = seen;
  const fault = faultOf(job, expected.runsBefore);
  if (fault !== undefined) return { is: "failed", why: fault };
  const missing = whatIsMissing(agent, expected);
  if (missing !== undefined) return { is: "waiting", why: missing };
  const isSettled =
    agent.at === "answers" && since?.pid === agent.pid && seen.atMs - since.atMs >= SETTLED_MS;
  return isSettled ? { is: "healthy" } : { is: "waiting", why: "it has just started" };
}

/** Undefined when the agent answers as it should. */
export function whatIsMissing(agent: Agent, { version, knownTroubles }: Expected): string | undefined {
  if (agent.at === "none") return "the agent does not listen on its socket";
  if (agent.at === "unknown") return `the agent's socket: ${agent.why}`;
  if (agent.at === "old") return `an agent without a version answers (pid ${agent.pid})`;
  if (agent.version !== version) return `version ${agent.version} answers (pid ${agent.pid}), not ${version}`;
  if (agent.phase !== "serving") return "the agent is still starting";
  const fresh = agent.troubles.filter((code) => knownTroubles !== undefined && !knownTroubles.includes(code));
  return fresh.length === 0 ? undefined : `the agent is not ready: ${fresh.join(", ")}`;
}

/** What cannot get better. */
function faultOf(job: Job, runsBefore: number | undefined): string | undefined {
  if (job.at === "absent" || job.pid !== undefined) return undefined;
  if (job.lastExit?.startsWith("78") === true) return "launchd cannot start the program (EX_CONFIG)";
  const runs = job.runs ?? 0;
  if (runsBefore === undefined || runs - runsBefore < RESTARTS_OF_A_CRASH) return undefined;
  return `the agent exits again and again (${job.lastExit ?? "reason unknown"})`;
}
