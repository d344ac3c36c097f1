/** Extracts the facts for placement from a Host. */

import { type Condition, getCondition, isConditionTrue } from "../../api/conditions.ts";
import type { Host } from "../../api/host.ts";
import { hasJoined } from "../../api/joined.ts";
import { isBeingDeleted } from "../../api/metadata.ts";
import { backendOfEntry } from "../../engines/generic/backend-entry.ts";
import { hostAccelerator } from "../../engines/registry.ts";
import { deviceClassOfHost } from "../devices/host.ts";
import { hostBudget } from "./budget.ts";
import type { HostFacts, ReportedCondition } from "./types.ts";

/** Condition in which the agent reports whether engines were found, and the problems of those that cannot be used. */
export const RUNTIMES_USABLE = "RuntimesUsable";

const PRESSURES = ["MemoryPressure", "DiskPressure", "ThermalPressure"];

/** Absent conditions count as Unknown, which never passes a filter. */
export function hostFacts(host: Host): HostFacts {
  const conditions = host.status?.conditions;
  const { drain, unschedulable } = host.spec;
  const cordon = drain ? "drain" : unschedulable ? "unschedulable" : undefined;
  const { compute, totalBytes = 0 } = host.status?.memory ?? {};
  const { runtimes = [] } = host.status ?? {};
  const flapping = getCondition(conditions, "Flapping");
  const runtimesUsable = getCondition(conditions, RUNTIMES_USABLE);
  return {
    name: host.metadata.name,
    labels: host.metadata.labels ?? {},
    ready: reported(getCondition(conditions, "Ready")),
    reachable: reported(getCondition(conditions, "Reachable")),
    isAwaited: !hasJoined(host),
    isLost: isConditionTrue(conditions, "Lost") || isBeingDeleted(host),
    cordon,
    pressures: PRESSURES.filter((type) => isConditionTrue(conditions, type)),
    flapping: flapping?.status === "True" ? flapping.message : undefined,
    runtimeProblem: runtimesUsable?.status === "False" ? runtimesUsable.message : undefined,
    accelerator: hostAccelerator(host.status?.info?.os),
    compute,
    runtimes: runtimes.map(({ name }) => name),
    backends: runtimes.flatMap(({ name, path }) =>
      backendOfEntry(name) === undefined ? [] : [{ entry: name, path }],
    ),
    budget: hostBudget(host),
    totalBytes: totalBytes > 0 ? totalBytes : undefined,
    models: (host.status?.models ?? []).map(({ source, sha256, tokensPerSecond = 0 }) => ({
      source,
      sha256,
      tokensPerSecond: tokensPerSecond > 0 ? tokensPerSecond : undefined,
    })),
    deviceClass: deviceClassOfHost(host),
    cost: host.spec.cost,
    canSeal: (host.status?.transport?.fingerprints.length ?? 0) > 0,
  };
}

function reported({ status = "Unknown", message }: Partial<Condition> = {}): ReportedCondition {
  return { status, message };
}
