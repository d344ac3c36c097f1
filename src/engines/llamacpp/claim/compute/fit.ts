/** From measured compute buffers to a backend's coefficients: a straight line through what was laid out and what was printed. */
import type { ComputeTable } from "./table.ts";

export interface ComputeSample {
  readonly laidOutBytes: number;
  readonly printedBytes: number;
}

/** Four decimal places are enough for a factor. */
const PLACES = 10_000;

/** Never below any sample: what a fit leaves over is added. Undefined for fewer than two different sizes. */
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
