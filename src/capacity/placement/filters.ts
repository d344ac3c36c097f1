/** The filters of placement, in order: a host that fails a later filter is a nearer miss. */

import type { ErrorCode } from "../../api/errors.ts";
import { selectorMatches } from "../../api/fields/kubernetes.ts";
import { backendOfEntry } from "../../engines/generic/backend-entry.ts";
import { formatBytes } from "../../util/bytes.ts";
import { type Demand, type HostChoice, type HostFacts, needBytes } from "./types.ts";

/** Time for which a host that refused a replica gets no other replica of its service. */
export const REFUSAL_MS = 10 * 60_000;

export interface FilterContext {
  /** Replicas of the demand's own service on this host. */
  readonly siblings: number;
  readonly now: number;
  /** The slot that the host is reserved for, if the reservation excludes this demand. */
  readonly reservedFor?: string | undefined;
}

export const NO_CONTEXT: FilterContext = { siblings: 0, now: 0 };

export interface Filter {
  readonly code: ErrorCode;
  /** host: depends only on the host, and is cached until the host changes. */
  readonly scope: "host" | "slot";
  /** Returns the reason why the host is refused; undefined if it passes. */
  readonly refuse: (demand: Demand, host: HostFacts, context: FilterContext) => string | undefined;
}

/** The reason why a host was refused. `passed` is the number of filters before; more is nearer. */
export interface FilterRefusal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly passed: number;
}

export const filters: readonly Filter[] = [
  {
    code: "HostNotNamed",
    scope: "slot",
    refuse: ({ choice }, host) => (isNamed(choice, host) ? undefined : "not in spec.placement.hosts"),
  },
  {
    code: "HostNotSelected",
    scope: "slot",
    refuse: ({ choice }, host) =>
      isSelected(choice, host) ? undefined : "labels do not match spec.placement.hostSelector",
  },
  {
    code: "HostLost",
    scope: "host",
    refuse: (_, host) => (host.isLost ? "marked lost" : undefined),
  },
  {
    code: "HostNeverSeen",
    scope: "host",
    refuse: (_, { isAwaited = false }) => (isAwaited ? "no agent has joined as this host yet" : undefined),
  },
  {
    code: "HostUnreachable",
    scope: "host",
    refuse: (_, { reachable }) =>
      reachable.status === "True" ? undefined : withReason("agent unreachable", reachable.message),
  },
  {
    code: "HostNotReady",
    scope: "host",
    refuse: (_, { ready }) => (ready.status === "True" ? undefined : withReason("not ready", ready.message)),
  },
  {
    code: "HostCordoned",
    scope: "host",
    refuse: (_, { cordon }) => {
      if (cordon === undefined) return undefined;
      return cordon === "drain" ? "draining" : "cordoned";
    },
  },
  {
    code: "HostFlapping",
    scope: "host",
    refuse: (_, { flapping }) => (flapping === undefined ? undefined : withReason("flapping", flapping)),
  },
  { code: "HostRuntimeMissing", scope: "slot", refuse: lacksRuntime },
  { code: "BackendNotAllowed", scope: "slot", refuse: refusesBackend },
  {
    code: "HostNotSealed",
    scope: "slot",
    refuse: ({ isSealed }, { canSeal }) =>
      isSealed === true && canSeal === false ? "its agent has published no certificate" : undefined,
  },
  {
    code: "HostUnderPressure",
    scope: "host",
    refuse: (_, { pressures }) => (pressures.length > 0 ? `under ${pressures.join(", ")}` : undefined),
  },
  {
    code: "HostTakenBySibling",
    scope: "slot",
    refuse: ({ choice }, _, { siblings }) =>
      choice.spread === "Required" && siblings > 0 ? "runs a replica of this service already" : undefined,
  },
  { code: "HostRefused", scope: "slot", refuse: refusedRecently },
  { code: "HostBeyondLimit", scope: "slot", refuse: beyondLimit },
  {
    code: "HostMemoryUnknown",
    scope: "slot",
    refuse: ({ memory }, { budget }) => (memory.known && !budget.known ? budget.why : undefined),
  },
  {
    code: "HostHeld",
    scope: "slot",
    refuse: (_, __, { reservedFor }) =>
      reservedFor === undefined ? undefined : `reserved for ${reservedFor}`,
  },
];

/** True if spec.placement allows the host, regardless of its state. */
export function isAllowedBy(choice: Omit<HostChoice, "spread">, host: NamedHost): boolean {
  return isNamed(choice, host) && isSelected(choice, host);
}

/** The first filter of a scope that a host fails. Memory is checked last, see {@link missingBytes}. */
export function firstRefusal(
  scope: Filter["scope"],
  demand: Demand,
  host: HostFacts,
  context: FilterContext,
): FilterRefusal | undefined {
  for (const [passed, filter] of filters.entries()) {
    if (filter.scope !== scope) continue;
    const message = filter.refuse(demand, host, context);
    if (message !== undefined) return { code: filter.code, message, passed };
  }
  return undefined;
}

/** Number of bytes that are missing on a host; 0 if none, or if it is unknown. */
export function missingBytes(demand: Demand, host: HostFacts, freeBytes: number): number {
  if (!(demand.memory.known && host.budget.known)) return 0;
  return Math.max(0, Math.ceil(needBytes(demand, host) - freeBytes));
}

export function memoryShortageText(demand: Demand, host: HostFacts, freeBytes: number): string {
  const all = host.budget.known ? ` of ${formatBytes(host.budget.bytes)}` : "";
  return `needs ${formatBytes(needBytes(demand, host))}, ${formatBytes(Math.max(0, freeBytes))}${all} left`;
}

type NamedHost = Pick<HostFacts, "name" | "labels">;

function isNamed({ hosts }: Pick<HostChoice, "hosts">, { name }: NamedHost): boolean {
  return hosts.length === 0 || hosts.includes(name);
}

function isSelected({ hostSelector }: Pick<HostChoice, "hostSelector">, { labels }: NamedHost): boolean {
  return selectorMatches(hostSelector, labels);
}

function lacksRuntime({ runtime }: Demand, host: HostFacts): string | undefined {
  if (backendOfEntry(runtime) !== undefined || host.runtimes.includes(runtime)) return undefined;
  if (host.runtimeProblem !== undefined) return `${runtime} cannot be used: ${host.runtimeProblem}`;
  const found = host.runtimes.length === 0 ? "no runtime was found" : `it has ${host.runtimes.join(", ")}`;
  return `${runtime} is not installed (${found})`;
}

/** Checks the name of the BackendRuntime and, if its command begins with a path, the path. */
function refusesBackend({ runtime, programPath }: Demand, host: HostFacts): string | undefined {
  const name = backendOfEntry(runtime);
  if (name === undefined) return undefined;
  if (!host.runtimes.includes(runtime))
    return `does not allow BackendRuntime ${name}, or its program is not installed`;
  const allowed = host.backends?.find(({ entry }) => entry === runtime)?.path;
  if (programPath === undefined || programPath === allowed) return undefined;
  return `allows BackendRuntime ${name} only with program ${allowed}, not with ${programPath}`;
}

/** Checks the limits in spec.hardware of the Model: bytes, or a fraction of the host's memory. */
function beyondLimit(demand: Demand, host: HostFacts): string | undefined {
  const { memory, limit } = demand;
  const { totalBytes } = host;
  if (limit === undefined || !memory.known) return undefined;
  const bytes = needBytes(demand, host);
  const needs = `needs ${formatBytes(bytes)}`;
  if (limit.of === "bytes") {
    return bytes > limit.bytes
      ? `${needs}, its Model allows ${formatBytes(limit.bytes)} (spec.hardware.memoryBudget)`
      : undefined;
  }
  if (totalBytes === undefined) return "memory not reported";
  const most = limit.fraction * totalBytes;
  return bytes > most
    ? `${needs}, its Model allows ${formatBytes(most)}, ${limit.fraction} of ${formatBytes(totalBytes)} (spec.hardware.memoryFraction)`
    : undefined;
}

function refusedRecently({ refusals }: Demand, host: HostFacts, { now }: FilterContext): string | undefined {
  const refusal = refusals.find((one) => one.host === host.name && now - one.atMs < REFUSAL_MS);
  if (refusal === undefined) return undefined;
  const minutes = Math.ceil((REFUSAL_MS - (now - refusal.atMs)) / 60_000);
  return `refused the replica (${refusal.message}); retried in ${minutes} min`;
}

function withReason(what: string, message: string | undefined): string {
  return message === undefined || message === "" ? what : `${what}: ${message}`;
}
