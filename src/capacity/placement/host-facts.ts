/** From a Host object to what placement reads. */
import type { Condition } from "../../api/conditions.ts";
import { getCondition, isConditionTrue } from "../../api/conditions.ts";
import type { Host, HostModel as StoredModel } from "../../api/host.ts";
import { hasJoined } from "../../api/joined.ts";
import { hostAccelerator } from "../../engines/registry.ts";
import { hostBudget } from "./budget.ts";
import type { HostFacts, HostWeights, ReportedCondition } from "./types.ts";

/** Condition of a Host by which its agent says whether engines were found, and what is wrong with those that cannot be used. */
export const RUNTIMES_USABLE = "RuntimesUsable";

const PRESSURES = ["MemoryPressure", "DiskPressure", "ThermalPressure"];

/** Absent conditions are Unknown, and unknown is never good enough. */
export function hostFacts(host: Host): HostFacts {
  const conditions = host.status?.conditions;
  const { drain, unschedulable } = host.spec;
  const cordon = drain ? "drain" : unschedulable ? "unschedulable" : undefined;
  return {
    name: host.metadata.name,
    labels: host.metadata.labels ?? {},
    ready: claimed(getCondition(conditions, "Ready")),
    reachable: claimed(getCondition(conditions, "Reachable")),
    isAwaited: !hasJoined(host),
    isLost: isConditionTrue(conditions, "Lost") || host.metadata.deletionTimestamp !== undefined,
    cordon,
    pressures: PRESSURES.filter((type) => isConditionTrue(conditions, type)),
    ...flappingOf(getCondition(conditions, "Flapping")),
    ...runtimeTrouble(getCondition(conditions, RUNTIMES_USABLE)),
    accelerator: hostAccelerator(host.status?.info?.os),
    compute: host.status?.memory?.compute,
    runtimes: (host.status?.runtimes ?? []).map(({ name }) => name),
    budget: hostBudget(host),
    ...totalOf(host.status?.memory?.totalBytes),
    models: (host.status?.models ?? []).map(modelFacts),
  };
}

/** A speed that is none was not measured. */
function modelFacts({ source, sha256, tokensPerSecond = 0 }: StoredModel): HostWeights {
  return {
    source,
    sha256,
    tokensPerSecond: tokensPerSecond > 0 ? tokensPerSecond : undefined,
  };
}

function runtimeTrouble(condition: Condition | undefined): Pick<HostFacts, "runtimeTrouble"> {
  return condition?.status === "False" ? { runtimeTrouble: condition.message } : {};
}

function flappingOf(condition: Condition | undefined): Pick<HostFacts, "flapping"> {
  return condition?.status === "True" ? { flapping: condition.message } : {};
}

function totalOf(totalBytes: number | undefined): Pick<HostFacts, "totalBytes"> {
  return totalBytes === undefined || totalBytes <= 0 ? {} : { totalBytes };
}

function claimed(condition: Condition | undefined): ReportedCondition {
  return condition === undefined
    ? { status: "Unknown" }
    : { status: condition.status, message: condition.message };
}
