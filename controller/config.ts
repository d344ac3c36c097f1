/** The controller's flags, which are validated once at the start and then read-only. */
import { hostname } from "node:os";
import { z } from "zod";
import { MetalbridgeError } from "../src/api/errors.ts";
import { scoreWeightsSchema } from "../src/capacity/score.ts";
import { modelConfigSchema } from "./models/config.ts";
import { benchmarksConfigSchema } from "./options/benchmark/config.ts";
import { externalMetricsConfigSchema } from "./options/external-metrics/config.ts";
import { labelsConfigSchema } from "./options/labels/config.ts";
import { liveEvictionConfigSchema } from "./options/live-eviction/config.ts";
import { preflightConfigSchema } from "./options/preflight/config.ts";
import { tunnelConfigSchema } from "./options/tunnel/config.ts";
import { podsConfigSchema } from "./pods/config.ts";
import { routesConfigSchema } from "./services/routes/config.ts";

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
    healthPort: z.coerce
      .number()
      .int()
      .min(0)
      .max(65535)
      .default(9464)
      .describe("Port of /healthz, /readyz and /metrics. 0 selects a free port."),
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
    ...preflightConfigSchema.shape,
    ...tunnelConfigSchema.shape,
    ...liveEvictionConfigSchema.shape,
    ...labelsConfigSchema.shape,
    ...benchmarksConfigSchema.shape,
    ...externalMetricsConfigSchema.shape,
    ...routesConfigSchema.shape,
  })
  .refine((config) => config.fitness || !config.liveEviction, {
    path: ["liveEviction"],
    message: "needs fitness",
  })
  .refine((config) => config.fitness || !config.probeNodes, {
    path: ["probeNodes"],
    message: "needs fitness",
  });

export type ControllerConfig = Readonly<z.output<typeof controllerConfigSchema>>;

/** Throws MetalbridgeError with the name of the invalid key. */
export function parseControllerConfig(input: unknown): ControllerConfig {
  const parsed = controllerConfigSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const key = issue?.code === "unrecognized_keys" ? issue.keys.join(", ") : (issue?.path.join(".") ?? "");
  throw new MetalbridgeError("ControllerConfigInvalid", `${key}: ${issue?.message ?? "is invalid"}`);
}

/** Unique to this process, because two controllers may run on one machine. */
export function defaultIdentity(): string {
  return `${hostname()}_${process.pid}`;
}
