/** Checks whether a host serves as before its upgrade, from the reports of the agent and the controller. Pure. */
import { getCondition } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { isReadyAndReachable, type ReplicaBaseline, type UpgradeTarget } from "./plan.ts";

export interface HostHealth {
  readonly at: "healthy" | "waiting" | "failed";
  /** Empty when it is healthy. */
  readonly why: string;
}

const HEALTHY: HostHealth = { at: "healthy", why: "" };

/** `replicas` are the current replicas of the host. A replica that the controller has moved or removed counts as healthy. */
export function judgeHost(
  host: Host | undefined,
  replicas: readonly InferenceReplica[],
  target: UpgradeTarget,
  version: string,
): HostHealth {
  if (host === undefined) return { at: "failed", why: `Host ${target.host} was deleted` };
  const missing = missingOf(host, target, version);
  if (missing !== undefined) return { at: "waiting", why: missing };
  const judged = target.replicas.map((baseline) =>
    judgeReplica(
      replicas.find(({ metadata }) => metadata.uid === baseline.uid),
      baseline,
    ),
  );
  return judged.find(({ at }) => at === "failed") ?? judged.find(({ at }) => at === "waiting") ?? HEALTHY;
}

function missingOf({ status }: Host, { wasReady }: UpgradeTarget, version: string): string | undefined {
  const reported = status?.info?.agentVersion ?? "unknown";
  if (reported !== version) return `its agent reports version ${reported}`;
  const needed = wasReady ? ["Reachable", "Ready"] : ["Reachable"];
  for (const type of needed) {
    const condition = getCondition(status?.conditions, type);
    if (condition === undefined) return `it has no condition ${type}`;
    if (condition.status !== "True")
      return `its condition ${type} is ${condition.status} (${condition.reason}: ${condition.message})`;
  }
  return undefined;
}

function judgeReplica(replica: InferenceReplica | undefined, baseline: ReplicaBaseline): HostHealth {
  if (replica === undefined || replica.metadata.deletionTimestamp !== undefined) return HEALTHY;
  const { pid, startedAt, phase = "Pending" } = replica.status ?? {};
  // An engine that the new agent has adopted keeps its pid and its start time.
  if (isOther(baseline.pid, pid) || isOther(baseline.startedAt, startedAt)) {
    const why = `the engine of ${baseline.key} was restarted: pid ${baseline.pid ?? "unknown"}, now ${pid ?? "unknown"}`;
    return { at: "failed", why };
  }
  return isReadyAndReachable(replica) ? HEALTHY : { at: "waiting", why: `${baseline.key} is ${phase}` };
}

function isOther<T>(before: T | undefined, now: T | undefined): boolean {
  return before !== undefined && now !== undefined && before !== now;
}
