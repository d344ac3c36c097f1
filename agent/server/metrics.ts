/** The agent's metrics, made when somebody asks: from state that is kept anyway, and from the engines themselves. */
import { registerFamilies } from "../../src/metrics/registry.ts";
import type { MetricsSource } from "./facts.ts";
import type { Scrape } from "./families/scrape.ts";
import { agentMetrics } from "./families.ts";

export interface Metrics {
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

/** An engine answers in milliseconds or not at all; the scrape is never held up for longer. */
const ENGINES_MS = 800;

/** Loads prom-client on first use: an agent that nobody scrapes does not pay for it. */
export async function createMetrics({ facts, readEngines }: MetricsSource): Promise<Metrics> {
  const { Registry } = await import("prom-client");
  let running: Promise<string> | undefined;
  const scrape = async (): Promise<string> => {
    const engines = await readEngines(ENGINES_MS);
    const { user, system } = process.cpuUsage();
    const { rss: residentBytes, heapUsed: heapUsedBytes } = process.memoryUsage();
    const cpuSeconds = (user + system) / 1e6;
    const now = facts();
    const startedAtSeconds = now.startedAtMs / 1_000;
    const own = { cpuSeconds, residentBytes, heapUsedBytes, startedAtSeconds };
    const found: Scrape = { ...now, engines, process: own };
    const registry = new Registry();
    registerFamilies(registry, agentMetrics, found);
    return registry.metrics();
  };
  return {
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
    // Scrapes that overlap share one look at the engines.
    text: () => {
      running ??= scrape().finally(() => {
        running = undefined;
      });
      return running;
    },
  };
}
