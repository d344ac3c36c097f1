/** Assesses whether the version that was just started works. Pure. */
import type { ManagedJob, ObservedAgent } from "./observed.ts";

export interface HealthObservation {
  readonly atMs: number;
  readonly agent: ObservedAgent;
  /** Undefined if the service manager was not queried. */
  readonly job: ManagedJob | undefined;
}

/** The process that reports healthy, and the time since when. */
export interface HealthySince {
  readonly pid: number;
  readonly atMs: number;
}

export interface ExpectedAgent {
  readonly version: string;
  /** Problems that the previous version also had, which are ignored. Undefined: all problems are ignored. */
  readonly knownProblems: readonly string[] | undefined;
  /** Number of earlier starts. If it is undefined, exits are not assessed. */
  readonly runsBefore: number | undefined;
}

export type HealthAssessment =
  | { readonly is: "healthy" }
  | { readonly is: "waiting"; readonly why: string }
  | { readonly is: "failed"; readonly why: string };

/** One process must report healthy for this long. */
const SETTLED_MS = 1_000;
/** The start by the install, and a start by the service manager after a crash. */
const RESTARTS_OF_A_CRASH = 2;

/** Only a process that the service manager started is healthy. `since` is from earlier readings. */
export function assessHealth(
  expected: ExpectedAgent,
  seen: HealthObservation,
  since: HealthySince | undefined,
): HealthAssessment {
  const { agent, job } = seen;
  const fault = job === undefined ? undefined : faultOf(job, expected.runsBefore);
  if (fault !== undefined) return { is: "failed", why: fault };
  const missing = healthProblem(agent, expected);
  if (missing !== undefined) return { is: "waiting", why: missing };
  if (job === undefined || !hasSettled(seen, since)) return { is: "waiting", why: "it has just started" };
  const pid = agent.at === "answers" ? agent.pid : undefined;
  if (job.at === "loaded" && job.pid === pid) return { is: "healthy" };
  return { is: "waiting", why: `an agent answers that the service did not start (pid ${pid})` };
}

/** True if the same process has reported healthy for long enough. */
export function hasSettled(
  { agent, atMs }: Pick<HealthObservation, "agent" | "atMs">,
  since: HealthySince | undefined,
): boolean {
  return agent.at === "answers" && since?.pid === agent.pid && atMs - since.atMs >= SETTLED_MS;
}

/** Undefined if the agent is healthy. */
export function healthProblem(
  agent: ObservedAgent,
  { version, knownProblems }: ExpectedAgent,
): string | undefined {
  if (agent.at === "none") return "the agent does not listen on its socket";
  if (agent.at === "unknown") return `the agent's socket: ${agent.why}`;
  if (agent.version !== version) return `version ${agent.version} answers (pid ${agent.pid}), not ${version}`;
  if (agent.phase !== "serving") return "the agent is still starting";
  const problems = agent.troubles.filter((code) => knownProblems?.includes(code) === false);
  return problems.length === 0 ? undefined : `the agent is not ready: ${problems.join(", ")}`;
}

/** A fault that waiting cannot solve. */
function faultOf(job: ManagedJob, runsBefore: number | undefined): string | undefined {
  if (job.at === "absent" || job.pid !== undefined || runsBefore === undefined) return undefined;
  const runs = (job.runs ?? 0) - runsBefore;
  // Before the first start, the last exit belongs to an earlier version.
  if (runs > 0 && job.lastExit?.startsWith("78") === true)
    return "launchd cannot start the program (EX_CONFIG)";
  if (runs < RESTARTS_OF_A_CRASH) return undefined;
  return `the agent exits repeatedly (${job.lastExit ?? "reason unknown"})`;
}
