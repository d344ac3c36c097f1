/** Renders the agent's metrics for each scrape, from its state and from the engines' own metrics. */
import { renderFamilies } from "../../src/http/metrics/render.ts";
import type { MetricsSource } from "./facts.ts";
import { agentMetrics } from "./families.ts";

export interface Metrics {
  readonly text: () => Promise<string>;
}

/** An engine answers in milliseconds or not at all; a scrape waits no longer than this. */
const ENGINES_MS = 800;

export function createMetrics({ facts, readEngines, readGate }: MetricsSource): Metrics {
  let running: Promise<string> | undefined;
  const scrape = async (): Promise<string> => {
    const [engines, gate] = await Promise.all([readEngines(ENGINES_MS), readGate(ENGINES_MS)]);
    const { user, system } = process.cpuUsage();
    const { rss: residentBytes, heapUsed: heapUsedBytes } = process.memoryUsage();
    const cpuSeconds = (user + system) / 1e6;
    const now = facts();
    const startedAtSeconds = now.startedAtMs / 1_000;
    const own = { cpuSeconds, residentBytes, heapUsedBytes, startedAtSeconds };
    return renderFamilies(agentMetrics, { ...now, engines, gate, process: own });
  };
  return {
    // Overlapping scrapes share one reading of the engines.
    text: () => {
      running ??= scrape().finally(() => {
        running = undefined;
      });
      return running;
    },
  };
}
