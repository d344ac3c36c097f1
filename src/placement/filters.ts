/** The filters of placement, in order: a host that fails a later one is the nearer miss. A new filter is one entry. */
import { selectorMatches } from "../api/fields/kubernetes.ts";
import { formatBytes } from "../bytes.ts";
import type { ErrorCode } from "../errors.ts";
import type { Demand, HostFacts } from "./types.ts";

/** How long a host that refused a replica is not asked again. */
export const REFUSAL_MS = 10 * 60_000;

export interface FilterContext {
  readonly claimedBytes: number;
  /** Replicas of the demand's own service on this host. */
  readonly siblings: number;
  readonly now: number;
  /** The service that the host is kept free for, where that binds this demand. */
  readonly heldFor?: string | undefined;
}

/**
 * What a filter's answer depends on, so that it is asked again only when that changes.
 * host: the host alone. choice: the host and what the service says of hosts. pair: anything.
 */
type FilterScope = "host" | "choice" | "pair";

export interface Filter {
  readonly code: ErrorCode;
  readonly scope: FilterScope;
  /** The reason why the host is out, or undefined where it passes. */
  readonly refuse: (demand: Demand, host: HostFacts, context: FilterContext) => string | undefined;
}

export const filters: readonly Filter[] = [
  {
    code: "HostNotNamed",
    scope: "choice",
    refuse: ({ choice }, host) =>
      choice.hosts.length > 0 && !choice.hosts.includes(host.name)
        ? "not in spec.placement.hosts"
        : undefined,
  },
  {
    code: "HostNotSelected",
    scope: "choice",
    refuse: ({ choice }, host) =>
      selectorMatches(choice.hostSelector, host.labels)
        ? undefined
        : "its labels do not match spec.placement.hostSelector",
  },
  {
    code: "HostLost",
    scope: "host",
    refuse: (_, host) => (host.isLost ? "it was given up as lost" : undefined),
  },
  {
    code: "HostUnreachable",
    scope: "host",
    refuse: (_, { reachable }) =>
      reachable.status === "True" ? undefined : told("its agent is silent", reachable.message),
  },
  {
    code: "HostNotReady",
    scope: "host",
    refuse: (_, { ready }) => (ready.status === "True" ? undefined : told("it is not ready", ready.message)),
  },
  {
    code: "HostCordoned",
    scope: "host",
    refuse: (_, { cordon }) => {
      if (cordon === undefined) return undefined;
      return cordon === "drain" ? "it is being drained" : "it is cordoned";
    },
  },
  {
    code: "HostFlapping",
    scope: "host",
    refuse: (_, { flapping }) => (flapping === undefined ? undefined : told("it comes and goes", flapping)),
  },
  { code: "HostRuntimeMissing", scope: "choice", refuse: lacksRuntime },
  {
    code: "HostUnderPressure",
    scope: "host",
    refuse: (_, { pressures }) => (pressures.length > 0 ? `it is under ${pressures.join(", ")}` : undefined),
  },
  {
    code: "HostTakenBySibling",
    scope: "pair",
    refuse: ({ choice }, _, { siblings }) =>
      choice.spread === "Required" && siblings > 0 ? "runs a replica of this service already" : undefined,
  },
  { code: "HostRefused", scope: "pair", refuse: refusedRecently },
  { code: "HostBeyondLimit", scope: "pair", refuse: beyondLimit },
  {
    code: "HostMemoryUnknown",
    scope: "pair",
    refuse: ({ memory }, { budget }) => (memory.known && !budget.known ? budget.why : undefined),
  },
  {
    code: "HostHeld",
    scope: "pair",
    refuse: (_, __, { heldFor }) =>
      heldFor === undefined ? undefined : `kept free for ${heldFor}, which has waited for long`,
  },
  { code: "HostMemoryShort", scope: "pair", refuse: shortOfMemory },
];

/** How many bytes are missing on a host; 0 where nothing is, or nothing is known. */
export function missingBytes({ memory }: Demand, { budget }: HostFacts, claimedBytes: number): number {
  if (!(memory.known && budget.known)) return 0;
  return Math.max(0, Math.ceil(memory.bytes - (budget.bytes - claimedBytes)));
}

function shortOfMemory(demand: Demand, host: HostFacts, { claimedBytes }: FilterContext): string | undefined {
  const { memory } = demand;
  const { budget } = host;
  if (!(memory.known && budget.known) || missingBytes(demand, host, claimedBytes) === 0) return undefined;
  const left = Math.max(0, budget.bytes - claimedBytes);
  return `needs ${formatBytes(memory.bytes)}, ${formatBytes(left)} of ${formatBytes(budget.bytes)} left`;
}

function lacksRuntime({ runtime }: Demand, host: HostFacts): string | undefined {
  if (host.runtimes.includes(runtime)) return undefined;
  if (host.runtimeTrouble !== undefined) return `${runtime} cannot be used: ${host.runtimeTrouble}`;
  const found = host.runtimes.length === 0 ? "no runtime was found" : `it has ${host.runtimes.join(", ")}`;
  return `${runtime} is not installed (${found})`;
}

/** spec.hardware of the Model: no more than so many bytes, or than this share of the host's memory. */
function beyondLimit({ memory, limit }: Demand, { totalBytes }: HostFacts): string | undefined {
  if (limit === undefined || !memory.known) return undefined;
  const needs = `needs ${formatBytes(memory.bytes)}`;
  if (limit.of === "bytes") {
    return memory.bytes > limit.bytes
      ? `${needs}, its Model allows ${formatBytes(limit.bytes)} (spec.hardware.memoryBudget)`
      : undefined;
  }
  if (totalBytes === undefined) return "it has not reported its memory";
  const most = limit.fraction * totalBytes;
  return memory.bytes > most
    ? `${needs}, its Model allows ${formatBytes(most)}, ${limit.fraction} of ${formatBytes(totalBytes)} (spec.hardware.memoryFraction)`
    : undefined;
}

function refusedRecently({ refusals }: Demand, host: HostFacts, { now }: FilterContext): string | undefined {
  const refusal = refusals.find((one) => one.host === host.name && now - one.atMs < REFUSAL_MS);
  if (refusal === undefined) return undefined;
  const minutes = Math.ceil((REFUSAL_MS - (now - refusal.atMs)) / 60_000);
  return `refused it (${refusal.message}); asked again in ${minutes} min`;
}

function told(what: string, message: string | undefined): string {
  return message === undefined || message === "" ? what : `${what}: ${message}`;
}
