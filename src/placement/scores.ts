/** The scores of placement: each from 0 to 1, weighted, summed. A new score is one entry. */
import type { Demand, HostFacts } from "./types.ts";

export interface ScoreContext {
  readonly claimedBytes: number;
  /** Replicas of the demand's own service on this host. */
  readonly siblings: number;
}

export interface Score {
  readonly name: string;
  readonly weight: number;
  readonly rate: (demand: Demand, host: HostFacts, context: ScoreContext) => number;
}

export const scores: readonly Score[] = [
  // One host that fails must not take all replicas along: worth more than a download.
  {
    name: "apart from its siblings",
    weight: 4,
    rate: ({ choice }, _, { siblings }) => (choice.spread === "None" ? 0 : 1 / (1 + siblings)),
  },
  { name: "weights on disk", weight: 2, rate: (demand, host) => (holdsWeights(demand, host) ? 1 : 0) },
  { name: "memory left", weight: 1, rate: rateMemory },
];

/** The weighted sum, and the names of what spoke for the host. */
export function rateHost(
  demand: Demand,
  host: HostFacts,
  context: ScoreContext,
): { total: number; why: string } {
  const rated = scores.map((score) => ({ score, value: score.rate(demand, host, context) }));
  const total = rated.reduce((sum, { score, value }) => sum + score.weight * value, 0);
  const why = rated
    .filter(({ value }) => value > 0)
    .map(({ score, value }) => `${score.name} ${value.toFixed(2)}`)
    .join(", ");
  return { total, why };
}

function holdsWeights({ weights, predecessors }: Demand, host: HostFacts): boolean {
  if (predecessors.some((one) => one.sharesWeights && one.host === host.name)) return true;
  return host.models.some((stored) => {
    if (weights.sha256 !== undefined && stored.sha256 !== undefined) return stored.sha256 === weights.sha256;
    return stored.source === weights.source;
  });
}

function rateMemory(
  { memory, choice }: Demand,
  { budget }: HostFacts,
  { claimedBytes }: ScoreContext,
): number {
  if (!budget.known || budget.bytes <= 0) return 0;
  const after = budget.bytes - claimedBytes - (memory.known ? memory.bytes : 0);
  const free = Math.min(1, Math.max(0, after / budget.bytes));
  return choice.spread === "None" ? 1 - free : free;
}
