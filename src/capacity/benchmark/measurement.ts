/** A measurement: its rates, its text as the termination message of a benchmark Job, and why it is no result. Pure. */
import { z } from "zod";
import {
  type BenchmarkRate,
  type BenchmarkSettings,
  type Measurement,
  measurementSchema,
} from "../../api/benchmark.ts";
import type { Model } from "../../api/model.ts";
import { formatBytes } from "../../util/bytes.ts";
import { parseJson } from "../../util/parse-json.ts";
import { truncateBytes } from "../../util/text.ts";
import type { ClassBandwidth } from "../fitness.ts";

/** Kubelets truncate a termination message at this size. */
const MAX_BYTES = 4096;
const MESSAGE_BYTES = 600;
/** More digits than this are noise, and 80 samples with all of their digits exceed the limit. */
const DIGITS = 5;

/** The engine could not be measured. */
const failureSchema = z.object({ failed: z.string() });
export type FailedBenchmark = z.output<typeof failureSchema>;

/** JSON of at most 4096 bytes. */
export function renderMeasurement(measurement: Measurement): string {
  return JSON.stringify(measurement, (_key, value: unknown) =>
    typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(DIGITS)) : value,
  );
}

/** JSON of at most 4096 bytes. */
export function renderBenchmarkFailure(message: string): string {
  return JSON.stringify({ failed: truncateBytes(message, MESSAGE_BYTES) } satisfies FailedBenchmark);
}

/** Undefined for a text that no benchmark Job wrote. */
export function parseBenchmarkReport(text: string | undefined): Measurement | FailedBenchmark | undefined {
  // Any client with the right to write the status of pods can exceed the limit of the kubelets.
  if (text === undefined || text.length > MAX_BYTES) return undefined;
  const value = parseJson(text);
  return measurementSchema.safeParse(value).data ?? failureSchema.safeParse(value).data;
}

/** Undefined without samples. `samples` are tokens per second. */
export function rateOf(samples: readonly number[]): BenchmarkRate | undefined {
  const sorted = [...samples].sort((a, b) => a - b);
  const [least] = sorted;
  const most = sorted.at(-1);
  if (least === undefined || most === undefined) return undefined;
  const middle = (index: number) => sorted[index] ?? 0;
  const median = (middle((sorted.length - 1) >> 1) + middle(sorted.length >> 1)) / 2;
  return { median, spread: median > 0 ? (most - least) / median : 0, samples: [...samples] };
}

/** Runs that differ by more than their median say what else ran on the machine. An estimate is better than such a result. */
const SPREAD_MAX = 1;

/** Why the runs of a measurement give no result; undefined if they do. */
export function noiseOf({ generation: { spread } }: Pick<Measurement, "generation">): string | undefined {
  if (spread <= SPREAD_MAX) return undefined;
  return `its runs differ by ${Math.round(spread * 100)}% of their median, and by at most ${SPREAD_MAX * 100}% in a valid measurement`;
}

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
