/** Settings of benchmarks, with their defaults. */
import { z } from "zod";
import { GO_DURATION, goDurationSeconds } from "../../src/util/go-duration.ts";

export const benchmarksConfigSchema = z.strictObject({
  benchmarks: z
    .enum(["Auto", "Off"])
    .default("Auto")
    .describe(
      "Auto: measure each Model once on each class of machines, while a machine is idle. Off: start no benchmarks; existing results stay in use.",
    ),
  benchmarkMaxAge: z
    .string()
    .min(2)
    .regex(GO_DURATION, "must be a duration such as 720h")
    .default("720h")
    .describe("Age after which a result is measured again, such as 720h."),
});

export interface BenchmarksSettings {
  readonly isOn: boolean;
  readonly maxAgeMs: number;
}

const HOUR_SECONDS = 3_600;

/** An age of less than an hour would measure without end. */
export function benchmarksSettingsOf({
  benchmarks,
  benchmarkMaxAge,
}: z.output<typeof benchmarksConfigSchema>): BenchmarksSettings {
  const seconds = goDurationSeconds(benchmarkMaxAge) ?? 0;
  return { isOn: benchmarks === "Auto", maxAgeMs: Math.max(HOUR_SECONDS, seconds) * 1_000 };
}
