/** The controller's flags, which are validated once at the start and then read-only. */
import { hostname } from "node:os";
import { z } from "zod";
import { listenPort } from "../src/api/fields/shared.ts";
import { parseSettings } from "../src/api/settings.ts";
import { scoreWeightsSchema } from "../src/capacity/score.ts";
import { modelConfigSchema } from "./models/config.ts";
import { OPTION_SHAPE, OPTIONS_NEED_FITNESS } from "./options/registry.ts";
import { podsConfigSchema } from "./pods/config.ts";
import { objectivesConfigSchema } from "./services/objectives/config.ts";
import { routesConfigSchema } from "./services/routes/config.ts";

const NEED_FITNESS = new Set(OPTIONS_NEED_FITNESS);

export const controllerConfigSchema = z
  .strictObject({
    kubeconfig: z
      .string()
      .min(1)
      .optional()
      .describe(
        "Kubeconfig of the cluster. Default: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount.",
      ),
    context: z.string().min(1).optional().describe("Context of the kubeconfig."),
    healthAddress: z
      .string()
      .min(1)
      .default("127.0.0.1")
      .describe("Address of /healthz, /readyz and /metrics."),
    healthPort: listenPort(9464, "Port of /healthz, /readyz and /metrics. 0 selects a free port."),
    flexinferMetricNames: z
      .boolean()
      .default(false)
      .describe("Also export the metric of speed under its name in FlexInfer, for existing dashboards."),
    fitness: z
      .boolean()
      .default(true)
      .describe(
        "Score machines for the models of the catalog. If false, the catalog is not read, placement.mode Auto leaves the choice of nodes to Kubernetes, and preflight checks only the capacity of hosts.",
      ),
    scoreWeights: scoreWeightsSchema,
    ...modelConfigSchema.shape,
    ...podsConfigSchema.shape,
    ...OPTION_SHAPE,
    ...routesConfigSchema.shape,
    ...objectivesConfigSchema.shape,
  })
  .superRefine((config, context) => {
    if (config.fitness) return;
    for (const [key, value] of Object.entries(config))
      if (value === true && NEED_FITNESS.has(key))
        context.addIssue({ code: "custom", path: [key], message: "needs fitness" });
  });

export type ControllerConfig = Readonly<z.output<typeof controllerConfigSchema>>;

/** Throws MetalbridgeError with the name of the invalid key. */
export function parseControllerConfig(input: unknown): ControllerConfig {
  return parseSettings(controllerConfigSchema, input, "ControllerConfigInvalid");
}

/** Unique to this process, because two controllers may run on one machine. */
export function defaultIdentity(): string {
  return `${hostname()}_${process.pid}`;
}
