/** Builds the Host status from the observed machine. Pure; small fluctuations are not a change. */

import type { BenchmarkState } from "../../src/api/benchmark.ts";
import {
  type Condition,
  type ConditionUpdate,
  getCondition,
  setCondition,
} from "../../src/api/conditions.ts";
import { createTrimmer } from "../../src/api/crd/fit.ts";
import { describeError, type ErrorCode, MetalbridgeError, type Remedy } from "../../src/api/errors.ts";
import { API_VERSION } from "../../src/api/group.ts";
import {
  DAMAGED_LENGTH_MAX,
  DAMAGED_MAX,
  HOST_MODELS_MAX,
  type Host,
  type HostCompute,
  type HostInstalled,
  type HostMemory,
  type HostModel,
  type HostPeer,
  type HostRemote,
  type HostRuntime,
  type HostStatus,
  type HostSystemInfo,
  type HostTransport,
  hostStatusSchema,
  INSTALLED_MAX,
  INSTALLED_NAME_MAX,
  PREFETCH_LENGTH_MAX,
  PREFETCH_STATES_MAX,
  type PrefetchState,
  SOURCES_LENGTH_MAX,
} from "../../src/api/host.ts";
import { hostBudget } from "../../src/capacity/placement/budget.ts";
import { RUNTIMES_USABLE } from "../../src/capacity/placement/host-facts.ts";
import type { MemoryReading } from "../../src/macos/host-reader.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { truncate } from "../../src/util/text.ts";
import type { AddressAnswer } from "../host/addresses.ts";
import { DOCTOR_CONDITIONS } from "../host/doctor-conditions.ts";
import type { MemoryAssessment } from "../pressure/pressure-watch.ts";

export interface ObservedHost {
  readonly info: HostSystemInfo;
  readonly address: AddressAnswer;
  readonly memory: MemoryReading & { readonly wiredBytes?: number | undefined };
  /** Absent before the governor's first reading. */
  readonly assessment?: MemoryAssessment | undefined;
  readonly gpuBudgetBytes: number | undefined;
  /** Measured on this host, or on one like it. */
  readonly compute?: HostCompute | undefined;
  readonly claimedBytes: number;
  readonly disk:
    | { readonly totalBytes: number; readonly freeBytes: number; readonly storeBytes: number }
    | undefined;
  readonly diskReserveBytes: number;
  readonly runtimes: FoundRuntimes;
  readonly models: readonly HostModel[];
  /** Absent if this host does not exchange weights with other hosts. */
  readonly peer?: HostPeer | undefined;
  /** Absent if this host has no usable certificate for sealed replicas. */
  readonly transport?: HostTransport | undefined;
  /** Absent while remote access is off. */
  readonly remote?: HostRemote | undefined;
  readonly prefetches?: readonly PrefetchState[];
  /** Absent without an order. */
  readonly benchmark?: BenchmarkState | undefined;
  readonly verifyRequest?: string | undefined;
  readonly verifyDamaged?: readonly string[] | undefined;
  /** Models of other programs on this machine; undefined before the first reading, so that the published list is kept. */
  readonly installed?: readonly HostInstalled[] | undefined;
  /** Findings of doctor's checks for the cluster; absent if the checks do not apply. */
  readonly machineConditions?: readonly ConditionUpdate[];
  /** Result of the last renewal of the agent's token; absent before the first one. */
  readonly credential?:
    | { readonly problem: { readonly code: ErrorCode; readonly message: string } | undefined }
    | undefined;
  /** True once replicas were listed and engines adopted. */
  readonly isWorking: boolean;
}

/** An installed engine that cannot be used: not executable, too old, broken. */
export interface RuntimeProblem {
  readonly runtime: string;
  readonly code: ErrorCode;
  readonly message: string;
}

export interface FoundRuntimes {
  readonly found: readonly HostRuntime[];
  readonly problems: readonly RuntimeProblem[];
}

const MIB = 2 ** 20;
const fitStatus = createTrimmer(hostStatusSchema);
const CREDENTIAL_RENEWED = "CredentialRenewed";
const OWN_CONDITIONS = [
  CREDENTIAL_RENEWED,
  "DiskPressure",
  "MemoryPressure",
  "Ready",
  RUNTIMES_USABLE,
  ...DOCTOR_CONDITIONS,
];

/** Every field that the agent owns in the Host's status. */
export function hostStatusBody(host: Host, seen: ObservedHost, nowIso: string): Host {
  const before = host.status;
  const own = ownConditions(host);
  const { generation } = host.metadata;
  const updates = [
    readiness(host, seen),
    memoryPressure(seen),
    diskPressure(seen),
    runtimesUsable(seen),
    ...(seen.machineConditions ?? []),
    ...credentialRenewed(seen),
  ];
  const conditions = updates.reduce<Condition[]>(
    (list, update) =>
      setCondition(list, { ...update, observedGeneration: generation }, transitionTime(own, update, nowIso)),
    own,
  );
  const status: HostStatus = {
    conditions,
    addresses: seen.address.at === "up" ? [seen.address.address] : [],
    info: seen.info,
    runtimes: [...seen.runtimes.found],
    memory: withLeft(host, memoryStatus(before?.memory, seen)),
    models: listed(seen.models),
  };
  if (seen.peer !== undefined) status.peer = seen.peer;
  if (seen.transport !== undefined) status.transport = seen.transport;
  if (seen.remote !== undefined) status.remote = seen.remote;
  // Before the first reading the published list is kept.
  const { installed, installedLeftOut } = seen.installed ? limitInstalled(seen.installed) : (before ?? {});
  Object.assign(status, { installed, installedLeftOut });
  const { prefetches = [], verifyRequest, verifyDamaged } = seen;
  if (verifyRequest !== undefined) status.verifyRequest = verifyRequest;
  if (verifyDamaged !== undefined)
    status.verifyDamaged = limitItems(
      verifyDamaged,
      { items: DAMAGED_MAX, length: DAMAGED_LENGTH_MAX },
      (source) => source.length,
    );
  if (prefetches.length > 0) {
    const limits = { items: PREFETCH_STATES_MAX, length: PREFETCH_LENGTH_MAX };
    status.prefetch = { models: limitItems(prefetches, limits, ({ source }) => source.length) };
  }
  if (seen.benchmark !== undefined) status.benchmark = { state: seen.benchmark };
  if (seen.disk !== undefined) status.disk = diskStatus(before?.disk, seen.disk);
  const { name, uid } = host.metadata;
  return {
    apiVersion: API_VERSION,
    kind: "Host",
    metadata: { name, uid },
    status: fitStatus(status),
  } as Host;
}

/** The last published status, with Ready Unknown: the host could not be observed since. */
export function unknownHostBody(host: Host, error: MetalbridgeError, nowIso: string): Host {
  const { reachableChanges: _, prefetch, benchmark, ...published } = host.status ?? {};
  const { name, uid, generation } = host.metadata;
  const message = truncate(describeError(error), 1_000);
  const ready = { type: "Ready", status: "Unknown", reason: error.code, message } as const;
  const status: HostStatus = {
    ...published,
    conditions: setCondition(ownConditions(host), { ...ready, observedGeneration: generation }, nowIso),
  };
  if (prefetch?.models !== undefined) status.prefetch = { models: prefetch.models };
  if (benchmark?.state !== undefined) status.benchmark = { state: benchmark.state };
  return { apiVersion: API_VERSION, kind: "Host", metadata: { name, uid }, status } as Host;
}

function ownConditions({ status }: Host): Condition[] {
  return (status?.conditions ?? []).filter(({ type }) => OWN_CONDITIONS.includes(type));
}

/** If not all models fit, those in use come first, then the most recently used. */
function listed(models: readonly HostModel[]): HostModel[] {
  const rank = ({ inUse = false, lastUsedAt = "" }: HostModel): string => `${inUse ? 1 : 0} ${lastUsedAt}`;
  const limits = { items: HOST_MODELS_MAX, length: SOURCES_LENGTH_MAX };
  const fits = limitItems(models, limits, ({ source }) => source.length);
  if (fits.length === models.length) return fits;
  const byUse = [...models].sort((a, b) => (rank(a) < rank(b) ? 1 : -1));
  return limitItems(byUse, limits, ({ source }) => source.length);
}

/** The first items, up to the limits of the schema: with more, every status write would fail. */
function limitItems<T>(
  items: readonly T[],
  limits: { readonly items: number; readonly length: number },
  lengthOf: (item: T) => number,
): T[] {
  let length = 0;
  return items
    .filter((item) => {
      const fits = length + lengthOf(item) <= limits.length;
      if (fits) length += lengthOf(item);
      return fits;
    })
    .slice(0, limits.items);
}

/** Omits a model whose name is too long: a truncated name would refer to another model. */
function limitInstalled(found: readonly HostInstalled[]): Pick<HostStatus, "installed" | "installedLeftOut"> {
  const installed = found.filter(({ source }) => source.length <= INSTALLED_NAME_MAX).slice(0, INSTALLED_MAX);
  const leftOut = found.length - installed.length;
  return {
    installed: installed.length === 0 ? undefined : installed,
    installedLeftOut: leftOut === 0 ? undefined : leftOut,
  };
}

function transitionTime(own: readonly Condition[], update: ConditionUpdate, nowIso: string): string {
  const known = getCondition(own, update.type);
  return known?.status === update.status ? known.lastTransitionTime : nowIso;
}

/** Why this host cannot serve an engine, for the Host's condition, its Event, the log and /readyz; undefined if it can. */
export function hostProblemOf(
  host: Host,
  { address, runtimes }: Pick<ObservedHost, "address" | "runtimes">,
): { readonly code: ErrorCode; readonly message: string } | undefined {
  if (address.at === "none") {
    const { code, why } = address;
    const remedy = code === "AddressNotRegistered" ? registering(host, address.register) : undefined;
    return { code, message: describeError(new MetalbridgeError(code, why, remedy)) };
  }
  return runtimes.found.length > 0 ? undefined : runtimeProblemOf(runtimes.problems);
}

function runtimeProblemOf(problems: readonly RuntimeProblem[]): { code: ErrorCode; message: string } {
  const [first] = problems;
  if (first === undefined) {
    const code = "RuntimeNotInstalled";
    return { code, message: explain(code, "no engine was found on this host") };
  }
  return { code: first.code, message: truncate(problems.map(({ message }) => message).join("; "), 1_000) };
}

function readiness(host: Host, seen: ObservedHost): ConditionUpdate {
  const problem = hostProblemOf(host, seen);
  if (problem !== undefined)
    return { type: "Ready", status: "False", reason: problem.code, message: problem.message };
  const { address, isWorking } = seen;
  if (!isWorking) {
    const message = "the agent has not read its replicas yet";
    return { type: "Ready", status: "False", reason: "Starting", message };
  }
  const message = `engines can be served on ${address.at === "up" ? address.address : ""}`;
  return { type: "Ready", status: "True", reason: "AgentReady", message };
}

/** Only the operator changes spec.addresses, so the agent only suggests the change. */
function registering({ metadata: { name }, spec }: Host, address: string): Remedy {
  // A merge patch: a JSON patch cannot append to a list that is not there.
  const patch = JSON.stringify({ spec: { addresses: [...(spec.addresses ?? []), address] } });
  return {
    summary: `if nodes reach it, add ${address} to spec.addresses (kubectl edit host ${name}), or its network as a CIDR, which covers its next address too`,
    command: `kubectl patch host ${name} --type=merge --patch '${patch}'`,
  };
}

function memoryPressure(seen: ObservedHost): ConditionUpdate {
  const type = "MemoryPressure";
  const pressure = pressureOf(seen);
  const because = seen.assessment?.because ?? "the OS reports it";
  switch (pressure) {
    case "Normal":
      return { type, status: "False", reason: "Normal", message: "memory is available" };
    case "Warning": {
      const message = `${because}: no new engine starts until memory has recovered`;
      return { type, status: "True", reason: pressure, message };
    }
    case "Critical": {
      const message = `${because}: no new engine starts, and engines are stopped one at a time until memory has recovered`;
      return { type, status: "True", reason: pressure, message };
    }
    case "Unknown": {
      const message = "the OS does not report memory pressure";
      return { type, status: "Unknown", reason: "ReadingFailed", message };
    }
    default:
      return pressure satisfies never;
  }
}

/** The governor's level if it is above Normal, otherwise the system's. */
export function pressureOf({
  memory,
  assessment,
}: Pick<ObservedHost, "memory" | "assessment">): MemoryReading["pressure"] {
  if (assessment === undefined || assessment.level === "Normal") return memory.pressure;
  return assessment.level;
}

function diskPressure({ disk, diskReserveBytes }: ObservedHost): ConditionUpdate {
  const type = "DiskPressure";
  if (disk === undefined)
    return { type, status: "Unknown", reason: "ReadingFailed", message: "cannot read free disk space" };
  if (disk.freeBytes >= diskReserveBytes)
    return { type, status: "False", reason: "Normal", message: "disk space is available" };
  const why = `less than the reserve of ${formatBytes(diskReserveBytes)} is free`;
  return { type, status: "True", reason: "DiskFull", message: explain("DiskFull", why) };
}

function credentialRenewed({ credential }: ObservedHost): readonly ConditionUpdate[] {
  if (credential === undefined) return [];
  const { problem } = credential;
  const type = CREDENTIAL_RENEWED;
  return problem === undefined
    ? [{ type, status: "True", reason: "Renewed", message: "the agent renewed its token" }]
    : [{ type, status: "False", reason: problem.code, message: truncate(problem.message, 1_000) }];
}

function runtimesUsable({ runtimes: { found, problems } }: ObservedHost): ConditionUpdate {
  const type = RUNTIMES_USABLE;
  if (found.length > 0 && problems.length === 0) {
    const names = found.map(({ name, version = "" }) => `${name} ${version}`.trim()).join(", ");
    return { type, status: "True", reason: "RuntimesFound", message: names };
  }
  const { code: reason, message } = runtimeProblemOf(problems);
  return { type, status: "False", reason, message };
}

function memoryStatus(before: HostMemory | undefined, seen: ObservedHost): HostMemory {
  const { memory, gpuBudgetBytes, claimedBytes } = seen;
  const { totalBytes } = memory;
  const step = Math.max(256 * MIB, (totalBytes ?? 0) / 20);
  const status: HostMemory = { claimedBytes, claimed: formatBytes(claimedBytes), pressure: pressureOf(seen) };
  if (totalBytes !== undefined) Object.assign(status, { totalBytes, total: formatBytes(totalBytes) });
  if (gpuBudgetBytes !== undefined) status.gpuBudgetBytes = gpuBudgetBytes;
  if (seen.compute !== undefined) status.compute = seen.compute;
  if (memory.availableBytes !== undefined)
    status.availableBytes = steady(before?.availableBytes, memory.availableBytes, step);
  if (memory.wiredBytes !== undefined)
    status.wiredBytes = steady(before?.wiredBytes, memory.wiredBytes, step);
  return status;
}

/** Uses the same calculation as placement and admission. */
function withLeft({ spec }: Host, memory: HostMemory): HostMemory {
  const budget = hostBudget({ spec, status: { memory } });
  if (!budget.known) return memory;
  const leftBytes = Math.max(0, budget.bytes - (memory.claimedBytes ?? 0));
  return { ...memory, leftBytes, left: `${formatBytes(leftBytes)} of ${formatBytes(budget.bytes)}` };
}

function diskStatus(
  before: HostStatus["disk"],
  disk: NonNullable<ObservedHost["disk"]>,
): NonNullable<HostStatus["disk"]> {
  const step = Math.max(1024 * MIB, disk.totalBytes / 50);
  return {
    totalBytes: disk.totalBytes,
    freeBytes: steady(before?.freeBytes, disk.freeBytes, step),
    usedBytes: steady(before?.usedBytes, disk.storeBytes, 64 * MIB),
  };
}

/** Keeps the published value until the reading differs from it by at least `step`. */
function steady(before: number | undefined, now: number, step: number): number {
  return before !== undefined && Math.abs(now - before) < step ? before : Math.round(now / MIB) * MIB;
}

function explain(code: ErrorCode, why: string): string {
  return describeError(new MetalbridgeError(code, why));
}
