/** The scores of placement, each from 0 to 1, which are weighted and summed. */
import { type Demand, type HostFacts, needBytes } from "./types.ts";

export interface ScoreContext {
  readonly claimedBytes: number;
  /** Replicas of the demand's own service on this host. */
  readonly siblings: number;
  /** The weights are on the host's disk, or will be. */
  readonly hasWeights: boolean;
  /** Measured tokens per second of the host with this model. */
  readonly speed: number | undefined;
  /** Maximum measured tokens per second of any host with this model; 0 if none was measured. */
  readonly fastest: number;
}

export interface Scorer {
  readonly name: string;
  readonly weight: number;
  readonly rate: (demand: Demand, host: HostFacts, context: ScoreContext) => number;
}

/** Maximum score of a host without speed and free memory, with and without the weights on its disk. */
export const MAX_SCORE_WITH_WEIGHTS = 6;
export const MAX_SCORE_WITHOUT_WEIGHTS = 4;
export const MAX_SPEED_SCORE = 2;
/** Speed score of a host without a measurement if others were measured: between fast and slow hosts. */
export const UNMEASURED = MAX_SPEED_SCORE / 2;

const SPEED = "measured speed";

export const scores: readonly Scorer[] = [
  // A failing host must not take down all replicas, which is worth more than a download.
  {
    name: "spread",
    weight: 4,
    rate: ({ choice }, _, { siblings }) => (choice.spread === "None" ? 0 : 1 / (1 + siblings)),
  },
  { name: "weights on disk", weight: 2, rate: (_, __, { hasWeights }) => (hasWeights ? 1 : 0) },
  { name: SPEED, weight: MAX_SPEED_SCORE, rate: rateSpeed },
  { name: "memory left", weight: 1, rate: rateMemory },
];

/** The weighted sum. */
export function rateHost(demand: Demand, host: HostFacts, context: ScoreContext): number {
  let total = 0;
  for (const { weight, rate } of scores) total += weight * rate(demand, host, context);
  return total;
}

/** The scores that contributed to the choice. */
export function placementReason(demand: Demand, host: HostFacts, context: ScoreContext): string {
  return scores
    .map((score) => ({ name: score.name, value: score.rate(demand, host, context) }))
    .filter(({ name, value }) => value > 0 && (name !== SPEED || context.speed !== undefined))
    .map(({ name, value }) => `${name} ${value.toFixed(2)}`)
    .join(", ");
}

/** Free memory after placement as a fraction of the budget; its complement without spread. */
export function rateMemory(
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

function rateSpeed(_: Demand, __: HostFacts, { fastest, speed }: ScoreContext): number {
  if (fastest <= 0) return 0;
  return speed === undefined ? UNMEASURED / MAX_SPEED_SCORE : Math.min(1, speed / fastest);
}
