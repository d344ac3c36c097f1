/** The part of the metrics that needs prom-client, apart so that it is loaded with the first scrape. */
import { Registry } from "prom-client";
import { registerFamilies } from "../../src/http/metrics/registry.ts";
import type { Scrape } from "./families/scrape.ts";
import { agentMetrics } from "./families.ts";

export const contentType = Registry.PROMETHEUS_CONTENT_TYPE;

/** What Prometheus reads. */
export function renderMetrics(scrape: Scrape): Promise<string> {
  const registry = new Registry();
  registerFamilies(registry, agentMetrics, scrape);
  return registry.metrics();
}
