/** Refuses a measured speed that no machine of its class can have, because one host measures for all of them. Pure. */
import type { BenchmarkSettings, Measurement } from "../../api/benchmark.ts";
import type { Model } from "../../api/model.ts";
import { formatBytes } from "../../util/bytes.ts";
import type { ClassBandwidth } from "../fitness.ts";

/** A token reads all active weights. Caches, and weights that tokens look up instead, allow more than the memory does. */
const FASTEST = 4;
/** Share of what the memory allows. Idle machines with the default settings of the engine are never that slow. */
const SLOWEST = 1 / 100;
/** Below, the launch of the layers takes most of the time. */
const LARGE_BYTES = 2 ** 30;
/** Active weights of a model of which no header was read: the sparsest mixtures of experts. */
const SPARSEST = 1 / 64;

/** The reason why the measurement is no result for its class; undefined if it may be one. */
export function implausibility(
  { generation: { median } }: Pick<Measurement, "generation">,
  { status }: Pick<Model, "status">,
  {
    settings,
    bandwidth,
  }: { readonly settings: BenchmarkSettings; readonly bandwidth: ClassBandwidth | undefined },
): string | undefined {
  const bytes = status?.weightsBytes ?? status?.sizeBytes ?? 0;
  if (bandwidth === undefined || bytes <= 0) return undefined;
  const fastest = (FASTEST * bandwidth.most) / (bytes * activeShare(status?.gguf));
  const isDefault = Object.keys(settings).length === 0;
  const slowest = isDefault && bytes >= LARGE_BYTES ? (SLOWEST * bandwidth.least) / bytes : 0;
  if (median >= slowest && median <= fastest) return undefined;
  const range = [slowest, fastest].map((speed) => Number(speed.toPrecision(2))).join(" and ");
  return `${Number(median.toPrecision(3))} tokens/s; machines of its class have between ${range} with ${formatBytes(bytes)} of weights`;
}

function activeShare(gguf: NonNullable<Model["status"]>["gguf"]): number {
  if (gguf === undefined) return SPARSEST;
  const { expertCount = 0, sizing } = gguf;
  if (expertCount === 0) return 1;
  return Math.max(SPARSEST, (sizing?.expertsUsed ?? 0) / expertCount);
}
