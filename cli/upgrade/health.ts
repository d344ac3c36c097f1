/** Whether a host serves as before its upgrade, by what its agent and the controller report. Pure. */
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

/** `replicas` are those of this host; one that the controller has moved or removed since is not waited for. */
export function judgeHost(
  host: Host | undefined,
  replicas: readonly InferenceReplica[],
  target: UpgradeTarget,
  version: string,
): HostHealth {
  if (host === undefined) return { at: "failed", why: `Host ${target.host} was deleted` };
  const missing = missingOf(host, target, version);
  if (missing !== undefined) return { at: "waiting", why: missing };
  const judged = target.replicas.map((kept) =>
    judgeReplica(
      replicas.find(({ metadata }) => metadata.uid === kept.uid),
      kept,
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

function judgeReplica(replica: InferenceReplica | undefined, kept: ReplicaBaseline): HostHealth {
  if (replica === undefined || replica.metadata.deletionTimestamp !== undefined) return HEALTHY;
  const { pid, startedAt, phase = "Pending" } = replica.status ?? {};
  // An engine that the new agent has adopted keeps its pid and its start time.
  if (isOther(kept.pid, pid) || isOther(kept.startedAt, startedAt)) {
    const why = `the engine of ${kept.key} was restarted: pid ${kept.pid ?? "unknown"}, now ${pid ?? "unknown"}`;
    return { at: "failed", why };
  }
  return isReadyAndReachable(replica) ? HEALTHY : { at: "waiting", why: `${kept.key} is ${phase}` };
}

function isOther<T>(before: T | undefined, now: T | undefined): boolean {
  return before !== undefined && now !== undefined && before !== now;
}
