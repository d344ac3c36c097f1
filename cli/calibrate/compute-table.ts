/** Derives the coefficients of a backend from measured compute buffers with a linear fit. */
import type { ComputeTable } from "../../src/engines/llamacpp/claim/compute/table.ts";

export interface ComputeSample {
  readonly laidOutBytes: number;
  readonly printedBytes: number;
}

/** Rounds the factor to four decimal places. */
const PLACES = 10_000;

/** The result is never below a sample, because the maximum error is added. Undefined with fewer than two different sizes. */
export function fitComputeTable(samples: readonly ComputeSample[], source: string): ComputeTable | undefined {
  const count = samples.length;
  const mean = (of: (sample: ComputeSample) => number) =>
    samples.reduce((sum, sample) => sum + of(sample), 0) / count;
  const [meanX, meanY] = [mean(({ laidOutBytes }) => laidOutBytes), mean(({ printedBytes }) => printedBytes)];
  const spread = mean(({ laidOutBytes }) => (laidOutBytes - meanX) ** 2);
  if (!(spread > 0)) return undefined;
  const common = mean((sample) => (sample.laidOutBytes - meanX) * (sample.printedBytes - meanY));
  const factor = Math.round(Math.max(0, common / spread) * PLACES) / PLACES;
  const missing = samples.map(({ laidOutBytes, printedBytes }) => printedBytes - factor * laidOutBytes);
  return {
    source,
    factor,
    inputCopies: 0,
    extraBytes: Math.max(0, Math.ceil(Math.max(...missing))),
    isMeasured: true,
  };
}
