/** Settings of live eviction, with their defaults. */
import { z } from "zod";
import type { LiveEvictionSettings } from "./plan.ts";

const seconds = (byDefault: number, description: string) =>
  z.coerce.number().int().min(1).max(86_400).default(byDefault).describe(description);

export const liveEvictionConfigSchema = z.strictObject({
  liveEviction: z
    .boolean()
    .default(false)
    .describe("Move replicas off machines whose fitness for their model has fallen, where a better one is."),
  liveEvictionSeconds: seconds(30, "Interval at which fitness is observed."),
  liveEvictionPercent: z.coerce
    .number()
    .int()
    .min(1)
    .max(100)
    .default(30)
    .describe("Part of the best score seen on the machine, in percent, that must be lost."),
  liveEvictionObservations: z.coerce
    .number()
    .int()
    .min(1)
    .max(1_000)
    .default(3)
    .describe("Consecutive observations that must show it."),
  liveEvictionCooldownSeconds: seconds(600, "Time between two moves of one service."),
  liveEvictionMinimumStaySeconds: seconds(600, "Time that a replica stays on its machine at least."),
});

/** Undefined where it is off. */
export function liveEvictionOf(
  config: z.output<typeof liveEvictionConfigSchema>,
): (LiveEvictionSettings & { readonly intervalMs: number }) | undefined {
  if (!config.liveEviction) return undefined;
  return {
    intervalMs: config.liveEvictionSeconds * 1_000,
    threshold: config.liveEvictionPercent / 100,
    observations: config.liveEvictionObservations,
    cooldownMs: config.liveEvictionCooldownSeconds * 1_000,
    minimumStayMs: config.liveEvictionMinimumStaySeconds * 1_000,
  };
}
