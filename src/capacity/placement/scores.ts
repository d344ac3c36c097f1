/** The scores of placement, each from 0 to 1, which are weighted and summed. */
import { type Demand, type HostFacts, needBytes } from "./types.ts";

export interface ScoreContext {
  readonly claimedBytes: number;
  /** Replicas of the demand's own service on this host. */
  readonly siblings: number;
  /** The weights are on the host's disk, or will be. */
  readonly hasWeights: boolean;
  /** The host ran the service before it was idle, so that its weights may still be in memory. */
  readonly isLastHost?: boolean;
  /** Score of the machine by speed, utilization and cost, as a rank from 0 to 1 (`scoreRank`). */
  readonly rank: number;
}

export interface Scorer {
  readonly name: string;
  readonly weight: number;
  readonly rate: (demand: Demand, host: HostFacts, context: ScoreContext) => number;
}

/**
 * The weights follow three rules, which hold for the default weights of the formula:
 * - The formula decides between hosts with the weights: a speed that is 6 % of the fastest higher is worth more than all memory.
 * - A host that is twice as fast is worth a download, and one that is half again as fast is not.
 * - A failing host must not take down all replicas, so nothing outweighs a first sibling on the host.
 */
const MACHINE = 10;
const WEIGHTS_ON_DISK = 3;
const MEMORY_LEFT = 0.4;
/** More than the memory, and less than a faster machine. */
const LAST_HOST = 0.5;
const SPREAD = 30;

export const scores: readonly Scorer[] = [
  {
    name: "spread",
    weight: SPREAD,
    rate: ({ choice }, _, { siblings }) => (choice.spread === "None" ? 0 : 1 / (1 + siblings)),
  },
  { name: "weights on disk", weight: WEIGHTS_ON_DISK, rate: (_, __, { hasWeights }) => (hasWeights ? 1 : 0) },
  { name: "ran here before", weight: LAST_HOST, rate: (_, __, { isLastHost }) => (isLastHost ? 1 : 0) },
  { name: "memory left", weight: MEMORY_LEFT, rate: rateMemory },
];

/** The weighted sum. */
export function rateHost(demand: Demand, host: HostFacts, context: ScoreContext): number {
  let total = MACHINE * context.rank;
  for (const { weight, rate } of scores) total += weight * rate(demand, host, context);
  return total;
}

/** Upper bound of the scores of all hosts with the weights and this rank. */
export function maxScore({ choice }: Pick<Demand, "choice">, rank: number): number {
  const spread = choice.spread === "None" ? 0 : SPREAD;
  return MACHINE * rank + spread + WEIGHTS_ON_DISK + MEMORY_LEFT;
}

/** The scores that contributed to the choice. `machine` explains the rank. */
export function placementReason(
  demand: Demand,
  host: HostFacts,
  context: ScoreContext,
  machine: string,
): string {
  const others = scores
    .map((score) => ({ name: score.name, value: score.rate(demand, host, context) }))
    .filter(({ value }) => value > 0)
    .map(({ name, value }) => `${name} ${value.toFixed(2)}`);
  return [...others, `score ${machine}`].join(", ");
}

/** Free memory after placement as a fraction of the budget; its complement without spread. */
function rateMemory(
  demand: Pick<Demand, "memory" | "choice">,
  host: HostFacts,
  { claimedBytes }: Pick<ScoreContext, "claimedBytes">,
): number {
  const { budget } = host;
  if (!budget.known || budget.bytes <= 0) return 0;
  const after = budget.bytes - claimedBytes - needBytes(demand, host);
  const free = Math.min(1, Math.max(0, after / budget.bytes));
  return demand.choice.spread === "None" ? 1 - free : free;
}
