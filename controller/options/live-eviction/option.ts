/** The option: moves replicas off machines whose score has fallen. */
import { z } from "zod";
import type { MoveSettings } from "../../../src/capacity/fitness.ts";
import type { Option } from "../../frame/option.ts";
import { startLiveEviction } from "./mover.ts";

/** Interval between observations of fitness. */
const INTERVAL_MS = 30_000;
/** Number of consecutive observations that must show the loss. */
const OBSERVATIONS = 3;
const COOLDOWN_MS = 600_000;
const MINIMUM_STAY_MS = 600_000;

export const liveEvictionConfigSchema = z.strictObject({
  liveEviction: z
    .boolean()
    .default(false)
    .describe(
      "Move replicas away from machines whose fitness for their model has fallen, if there is a better machine.",
    ),
  liveEvictionPercent: z.coerce
    .number()
    .int()
    .min(1)
    .max(100)
    .default(30)
    .describe(
      "Move a replica if the score of its machine has dropped by at least this percentage of the best score seen there.",
    ),
});

type LiveEvictionTimes = Partial<MoveSettings & { readonly intervalMs: number }>;

/** `liveEvictionTimes` overrides the times, for tests. */
export const liveEviction: Option<
  typeof liveEvictionConfigSchema.shape,
  { liveEvictionTimes?: LiveEvictionTimes }
> = {
  shape: liveEvictionConfigSchema.shape,
  needsFitness: "liveEviction",
  start: (config) => {
    const settings = liveEvictionOf(config, config.liveEvictionTimes);
    if (settings === undefined) return {};
    return {
      lead: (ports) => ({
        minimumStayMs: settings.minimumStayMs,
        onWorking: () => {
          const onMoving = (keys: readonly string[]) => keys.forEach(ports.services.enqueue);
          startLiveEviction({ ...ports, liveEviction: settings, onMoving });
        },
      }),
    };
  },
};

/** Undefined if live eviction is off. */
export function liveEvictionOf(
  config: z.output<typeof liveEvictionConfigSchema>,
  times: LiveEvictionTimes = {},
): Required<LiveEvictionTimes> | undefined {
  if (!config.liveEviction) return undefined;
  return {
    intervalMs: INTERVAL_MS,
    threshold: config.liveEvictionPercent / 100,
    observations: OBSERVATIONS,
    cooldownMs: COOLDOWN_MS,
    minimumStayMs: MINIMUM_STAY_MS,
    ...times,
  };
}
