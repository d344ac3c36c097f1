/** The scores of placement: each from 0 to 1, weighted, summed. A new score is one entry. */
import type { Demand, HostFacts } from "./types.ts";

export interface ScoreContext {
  readonly claimedBytes: number;
  /** Replicas of the demand's own service on this host. */
  readonly siblings: number;
  /** The most tokens per second that any host was measured at with this model; 0 where none was. */
  readonly fastest: number;
}

export interface Score {
  readonly name: string;
  readonly weight: number;
  readonly rate: (demand: Demand, host: HostFacts, context: ScoreContext) => number;
}

const SPEED = "measured speed";

export const scores: readonly Score[] = [
  // One host that fails must not take all replicas along: worth more than a download.
  {
    name: "apart from its siblings",
    weight: 4,
    rate: ({ choice }, _, { siblings }) => (choice.spread === "None" ? 0 : 1 / (1 + siblings)),
  },
  { name: "weights on disk", weight: 2, rate: (demand, host) => (holdsWeights(demand, host) ? 1 : 0) },
  { name: SPEED, weight: 2, rate: rateSpeed },
  { name: "memory left", weight: 1, rate: rateMemory },
];

/** What a host can get at most besides memory left, and where nobody holds the weights or has measured. */
export const MOST_OF_KNOWN = 8;
export const MOST_OF_UNKNOWN = 4;
/** What a host without a measurement gets while others have one: between the fast and the slow. */
const UNMEASURED = 0.5;

/** The weighted sum. */
export function rateHost(demand: Demand, host: HostFacts, context: ScoreContext): number {
  let total = 0;
  for (const { weight, rate } of scores) total += weight * rate(demand, host, context);
  return total;
}

/** The names of what spoke for the host. */
export function whyHost(demand: Demand, host: HostFacts, context: ScoreContext): string {
  return scores
    .map((score) => ({ name: score.name, value: score.rate(demand, host, context) }))
    .filter(({ name, value }) => value > 0 && (name !== SPEED || speedOn(demand, host) !== undefined))
    .map(({ name, value }) => `${name} ${value.toFixed(2)}`)
    .join(", ");
}

/** Bytes that decide the memory score, as a share of the budget. */
export function rateMemory(
  { memory, choice }: Pick<Demand, "memory" | "choice">,
  { budget }: Pick<HostFacts, "budget">,
  { claimedBytes }: Pick<ScoreContext, "claimedBytes">,
): number {
  if (!budget.known || budget.bytes <= 0) return 0;
  const after = budget.bytes - claimedBytes - (memory.known ? memory.bytes : 0);
  const free = Math.min(1, Math.max(0, after / budget.bytes));
  return choice.spread === "None" ? 1 - free : free;
}

function holdsWeights({ weights, predecessors }: Demand, host: HostFacts): boolean {
  if (predecessors.some((one) => one.sharesWeights && one.host === host.name)) return true;
  return host.models.some((stored) => {
    if (weights.sha256 !== undefined && stored.sha256 !== undefined) return stored.sha256 === weights.sha256;
    return stored.source === weights.source;
  });
}

function rateSpeed(demand: Demand, host: HostFacts, { fastest }: ScoreContext): number {
  if (fastest <= 0) return 0;
  const speed = speedOn(demand, host);
  return speed === undefined ? UNMEASURED : Math.min(1, speed / fastest);
}

function speedOn({ weights }: Demand, host: HostFacts): number | undefined {
  for (const { source, tokensPerSecond } of host.models) {
    if (source === weights.source && tokensPerSecond !== undefined) return tokensPerSecond;
  }
  return undefined;
}
