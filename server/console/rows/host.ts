/** The row of a Mac or another host, with the claims of its replicas. Pure. */

import { memoryOfReplica } from "../../../fitness/density/held-memory.ts";
import { type Condition, getCondition, isConditionTrue } from "../../../src/api/conditions.ts";
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { hasJoined } from "../../../src/api/joined.ts";
import { keyOf } from "../../../src/api/names.ts";
import { hostBudget } from "../../../src/capacity/placement/budget.ts";
import type { Attention, ClaimRow, HostRow } from "../../../src/console/rows.ts";
import { osText, stateOfHost } from "../../../src/verdicts/host.ts";
import { attentionOf, type BadCondition, conditionFinding, type Finding } from "./attention.ts";
import type { MachineFigures } from "./machine.ts";

export interface HostObjects {
  readonly host: Host;
  readonly replicas: readonly InferenceReplica[];
  readonly figures: MachineFigures | undefined;
}

export function hostRow({ host, replicas, figures }: HostObjects): HostRow {
  const { metadata, spec, status } = host;
  const { info, memory, disk, addresses = [], runtimes = [], models = [] } = status ?? {};
  const isStale = hasJoined(host) && (figures?.isStale ?? false);
  const system = figures?.system;
  return {
    name: metadata.name,
    kind: "Host",
    state: stateOfHost(host, isStale),
    attention: hostAttention(host, isStale),
    isCordoned: spec.unschedulable || spec.drain,
    isStale,
    chip: info?.chip ?? system?.gpu_name ?? info?.arch ?? "",
    os: osText(host),
    backend: system?.backend ?? "",
    cores: system?.cpu_cores ?? 0,
    gpus: system?.gpu_count ?? 0,
    totalBytes: memory?.totalBytes ?? info?.memoryBytes ?? 0,
    ...budgetOf(host),
    leftBytes: figures?.leftBytes,
    pressure: memory?.pressure ?? "Unknown",
    claims: replicas.map(claimOf).sort(byBytes),
    engines: runtimes.map(({ name, version = "" }) => ({ name, version })),
    agentVersion: info?.agentVersion ?? "",
    lastSeen: lastSeenOf(isStale, figures),
    diskFreeBytes: disk?.freeBytes,
    diskTotalBytes: disk?.totalBytes,
    copies: models.length,
    fits: figures?.fits,
    address: addresses[0] ?? "",
    resourceVersion: metadata.resourceVersion ?? "",
  };
}

/** Absent while the machine reports. */
export function lastSeenOf(isStale: boolean, figures: MachineFigures | undefined): string | undefined {
  const ms = figures?.lastSeenMs;
  return isStale && ms !== undefined && Number.isFinite(ms) ? new Date(ms).toISOString() : undefined;
}

/** Largest first, so that a bar begins with what matters. */
export function byBytes(a: ClaimRow, b: ClaimRow): number {
  return b.bytes - a.bytes || (a.replica < b.replica ? -1 : 1);
}

function budgetOf(host: Host): Pick<HostRow, "budgetBytes" | "reserveBytes"> {
  const budget = hostBudget(host);
  if (!budget.known) return { budgetBytes: 0, reserveBytes: 0 };
  const reserveBytes = parseQuantity(host.spec.memory.systemReserve ?? 0) ?? 0;
  return { budgetBytes: budget.bytes + reserveBytes, reserveBytes };
}

function claimOf(replica: InferenceReplica): ClaimRow {
  const { namespace, service, phase, bytes } = memoryOfReplica(replica);
  const usedBytes = replica.status?.memory?.footprintBytes;
  return {
    service: keyOf({ namespace, name: service }),
    replica: replica.metadata.name,
    phase,
    bytes,
    usedBytes,
  };
}

/** The conditions of the controller come first, because a dead agent cannot update its own. */
const OUTAGES: readonly BadCondition[] = [
  { type: "Lost", bad: "True", level: "bad" },
  { type: "Reachable", bad: "False", level: "bad" },
  { type: "Ready", bad: "False", level: "bad" },
];

/** RestartAtRisk is not among them: FileVault is a choice. */
const HOST_WARNINGS: readonly BadCondition[] = [
  { type: "Drained", bad: "False", level: "warn" },
  { type: "MemoryPressure", bad: "True", level: "warn", code: "MemoryPressure" },
  { type: "DiskPressure", bad: "True", level: "warn" },
  { type: "InboundBlocked", bad: "True", level: "warn" },
  { type: "RuntimesUsable", bad: "False", level: "warn" },
  { type: "CredentialRenewed", bad: "False", level: "warn" },
  { type: "Flapping", bad: "True", level: "warn" },
  { type: "ThermalPressure", bad: "True", level: "warn" },
  { type: "PowerAtRisk", bad: "True", level: "warn" },
];
/** A drain that proceeds, and an agent that starts. */
const SETTLING: ReadonlySet<string> = new Set(["DrainInProgress", "Starting"]);

function hostAttention(host: Host, isStale: boolean): Attention | undefined {
  const finding = hostFinding(host, isStale);
  return finding && attentionOf(finding, { host: host.metadata.name });
}

/** A drained host may be switched off. */
function hostFinding({ spec, status }: Host, isStale: boolean): Finding | undefined {
  const conditions = status?.conditions;
  if (spec.drain && isConditionTrue(conditions, "Drained")) return undefined;
  const find = (bad: readonly BadCondition[]): Finding | undefined =>
    bad
      .map((one) => conditionFinding(conditions, one))
      .find((found) => found !== undefined && !SETTLING.has(found.reason));
  return find(OUTAGES) ?? silence(conditions, isStale) ?? find(HOST_WARNINGS);
}

/** For an outage that no condition of the controller reports. */
function silence(conditions: readonly Condition[] | undefined, isStale: boolean): Finding | undefined {
  if (!isStale) return undefined;
  const reachable = getCondition(conditions, "Reachable");
  if (reachable?.reason === "MassExpiry") {
    const { reason, message, lastTransitionTime: since } = reachable;
    return { level: "warn", reason, message, since };
  }
  return { level: "warn", reason: "HostUnreachable", message: "" };
}
