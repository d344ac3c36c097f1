/** All metrics of the controller, in the order of the output. */
import type { MetricFamily } from "../../src/http/metrics/family.ts";
import { processFamilies } from "../../src/http/metrics/process.ts";
import type { ControllerFacts } from "./facts.ts";
import { controllerHostFamilies } from "./hosts.ts";
import { selfFamilies } from "./self.ts";
import { serviceFamilies } from "./services.ts";

export const controllerMetrics: readonly MetricFamily<ControllerFacts>[] = [
  ...selfFamilies,
  ...controllerHostFamilies,
  ...serviceFamilies,
  ...processFamilies,
];
