/** Whether the version that was just started works. Pure. */
import type { ManagedJob, ObservedAgent } from "./observed.ts";

export interface HealthObservation {
  readonly atMs: number;
  readonly agent: ObservedAgent;
  /** Undefined where the service manager was not asked. */
  readonly job: ManagedJob | undefined;
}

/** The process that answered as healthy, and since when. */
export interface HealthySince {
  readonly pid: number;
  readonly atMs: number;
}

export interface ExpectedAgent {
  readonly version: string;
  /** Troubles that are no fault of this version: the one before had them too. Undefined: any. */
  readonly knownTroubles: readonly string[] | undefined;
  /** Starts before this one; undefined where they are not known: then no exit is judged. */
  readonly runsBefore: number | undefined;
}

export type HealthAssessment =
  | { readonly is: "healthy" }
  | { readonly is: "waiting"; readonly why: string }
  | { readonly is: "failed"; readonly why: string };

/** It has to answer as healthy, by one process, for this long. */
const SETTLED_MS = 1_000;
/** The one that we made, and one that the service manager made after a crash. */
const RESTARTS_OF_A_CRASH = 2;

/** `since` is of the readings before. Healthy is only a process that the service manager started. */
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

/** Whether the same process has answered as healthy for long enough. */
export function hasSettled(
  { agent, atMs }: Pick<HealthObservation, "agent" | "atMs">,
  since: HealthySince | undefined,
): boolean {
  return agent.at === "answers" && since?.pid === agent.pid && atMs - since.atMs >= SETTLED_MS;
}

/** Undefined when the agent answers as it should. */
export function healthProblem(
  agent: ObservedAgent,
  { version, knownTroubles }: ExpectedAgent,
): string | undefined {
  if (agent.at === "none") return "the agent does not listen on its socket";
  if (agent.at === "unknown") return `the agent's socket: ${agent.why}`;
  if (agent.at === "old") return `an agent without a version answers (pid ${agent.pid})`;
  if (agent.version !== version) return `version ${agent.version} answers (pid ${agent.pid}), not ${version}`;
  if (agent.phase !== "serving") return "the agent is still starting";
  const fresh = agent.troubles.filter((code) => knownTroubles !== undefined && !knownTroubles.includes(code));
  return fresh.length === 0 ? undefined : `the agent is not ready: ${fresh.join(", ")}`;
}

/** What cannot get better. */
function faultOf(job: ManagedJob, runsBefore: number | undefined): string | undefined {
  if (job.at === "absent" || job.pid !== undefined || runsBefore === undefined) return undefined;
  const runs = (job.runs ?? 0) - runsBefore;
  // Before the first start, the last exit is that of an earlier version.
  if (runs > 0 && job.lastExit?.startsWith("78") === true)
    return "launchd cannot start the program (EX_CONFIG)";
  if (runs < RESTARTS_OF_A_CRASH) return undefined;
  return `the agent exits again and again (${job.lastExit ?? "reason unknown"})`;
}
