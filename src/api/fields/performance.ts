/** Live performance of engines, which replicas and services report. */
import { z } from "zod";

const number = (description: string) => z.number().min(0).describe(description).optional();

export const performanceSchema = z.object({
  tokensPerSecond: number(
    "Tokens that all requests together generated per second, as a mean over the last minute. Absent if no engine reports it.",
  ),
  timeToFirstTokenSeconds: number(
    "Time to the first token in seconds, as a mean over the requests of the last minute. Absent without requests.",
  ),
  requestsInFlight: number(
    "Number of requests that are processed or queued, as a mean over the last minute.",
  ),
});

export const totalPerformanceSchema = performanceSchema.extend({
  requestsUnknown: z
    .boolean()
    .describe(
      "True if the requests of a ready replica are not known, for example because the controller cannot read the metrics of its pod. requestsInFlight is then absent, and autoscalers keep the replicas.",
    )
    .optional(),
});

export type Performance = z.output<typeof performanceSchema>;

/** Performance of several replicas. */
export type TotalPerformance = z.output<typeof totalPerformanceSchema>;
