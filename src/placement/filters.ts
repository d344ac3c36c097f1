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
}

export interface Filter {
  readonly code: ErrorCode;
  /** The reason why the host is out, or undefined where it passes. */
  readonly refuse: (demand: Demand, host: HostFacts, context: FilterContext) => string | undefined;
}

export const filters: readonly Filter[] = [
  {
    code: "HostNotNamed",
    refuse: ({ choice }, host) =>
      choice.hosts.length > 0 && !choice.hosts.includes(host.name)
        ? "not in spec.placement.hosts"
        : undefined,
  },
  {
    code: "HostNotSelected",
    refuse: ({ choice }, host) =>
      selectorMatches(choice.hostSelector, host.labels)
        ? undefined
        : "its labels do not match spec.placement.hostSelector",
  },
  { code: "HostLost", refuse: (_, host) => (host.isLost ? "lost" : undefined) },
  {
    code: "HostUnreachable",
    refuse: (_, { reachable }) =>
      reachable.status === "True" ? undefined : told("its agent is silent", reachable.message),
  },
  {
    code: "HostNotReady",
    refuse: (_, { ready }) => (ready.status === "True" ? undefined : told("not ready", ready.message)),
  },
  {
    code: "HostCordoned",
    refuse: (_, { cordon }) => {
      if (cordon === undefined) return undefined;
      return cordon === "drain" ? "being drained" : "cordoned";
    },
  },
  {
    code: "HostRuntimeMissing",
    refuse: ({ runtime }, host) => {
      if (host.runtimes.includes(runtime)) return undefined;
      if (host.runtimeTrouble !== undefined) return `${runtime} cannot be used: ${host.runtimeTrouble}`;
      const found =
        host.runtimes.length === 0 ? "no runtime was found" : `it has ${host.runtimes.join(", ")}`;
      return `${runtime} is not installed (${found})`;
    },
  },
  {
    code: "HostUnderPressure",
    refuse: (_, { pressures }) => (pressures.length > 0 ? `under ${pressures.join(", ")}` : undefined),
  },
  {
    code: "HostTakenBySibling",
    refuse: ({ choice }, _, { siblings }) =>
      choice.spread === "Required" && siblings > 0 ? "runs a replica of this service already" : undefined,
  },
  { code: "HostRefused", refuse: refusedRecently },
  {
    code: "HostMemoryUnknown",
    refuse: ({ memory }, { budget }) => (memory.known && !budget.known ? budget.why : undefined),
  },
  { code: "HostMemoryShort", refuse: shortOfMemory },
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

function refusedRecently({ refusals }: Demand, host: HostFacts, { now }: FilterContext): string | undefined {
  const refusal = refusals.find((one) => one.host === host.name && now - one.atMs < REFUSAL_MS);
  if (refusal === undefined) return undefined;
  const minutes = Math.ceil((REFUSAL_MS - (now - refusal.atMs)) / 60_000);
  return `refused it (${refusal.message}); asked again in ${minutes} min`;
}

function told(what: string, message: string | undefined): string {
  return message === undefined || message === "" ? what : `${what}: ${message}`;
}
