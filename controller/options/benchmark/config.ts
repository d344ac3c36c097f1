/** Settings of benchmarks, with their defaults. */
import { z } from "zod";
import { GO_DURATION, goDurationSeconds } from "../../../src/util/go-duration.ts";

const HOUR_SECONDS = 3_600;

export const benchmarksConfigSchema = z.strictObject({
  benchmarks: z
    .enum(["Auto", "Off"])
    .default("Auto")
    .describe(
      "Auto: measure each Model once on each class of machines, while a machine is idle. Off: start no benchmarks; existing results stay in use.",
    ),
  benchmarkMaxAge: z
    .string()
    .regex(GO_DURATION, "must be a duration such as 720h")
    // An age of less than an hour would measure without end.
    .refine((text) => (goDurationSeconds(text) ?? 0) >= HOUR_SECONDS, "must be at least 1h")
    .default("720h")
    .describe("Age after which a result is measured again, such as 720h."),
});

export interface BenchmarksSettings {
  readonly isOn: boolean;
  readonly maxAgeMs: number;
}

export function benchmarksSettingsOf({
  benchmarks,
  benchmarkMaxAge,
}: z.output<typeof benchmarksConfigSchema>): BenchmarksSettings {
  return { isOn: benchmarks === "Auto", maxAgeMs: (goDurationSeconds(benchmarkMaxAge) ?? 0) * 1_000 };
}
