/** The result of a benchmark Job, which is the termination message of its container. Pure. */
import { z } from "zod";
import { type BenchmarkRate, type Measurement, measurementSchema } from "../../api/benchmark.ts";
import { parseJson } from "../../util/parse-json.ts";
import { truncateBytes } from "../../util/text.ts";

/** Kubelets truncate a termination message at this size. */
const MAX_BYTES = 4096;
const MESSAGE_BYTES = 600;
/** More digits than this are noise, and 80 samples with all of their digits exceed the limit. */
const DIGITS = 5;

/** The engine could not be measured. */
const failureSchema = z.object({ failed: z.string() });
export type BenchmarkFailure = z.output<typeof failureSchema>;

/** JSON of at most 4096 bytes. */
export function renderMeasurement(measurement: Measurement): string {
  return JSON.stringify(measurement, (_key, value: unknown) =>
    typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(DIGITS)) : value,
  );
}

/** JSON of at most 4096 bytes. */
export function renderBenchmarkFailure(message: string): string {
  return JSON.stringify({ failed: truncateBytes(message, MESSAGE_BYTES) } satisfies BenchmarkFailure);
}

/** Undefined for a text that no benchmark Job wrote. */
export function parseBenchmarkReport(text: string | undefined): Measurement | BenchmarkFailure | undefined {
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
