/** Renders the agent's metrics for each scrape, from its state and from the engines' own metrics. */
import { withFlexinferNames } from "../../src/http/metrics/live.ts";
import { renderFamilies } from "../../src/http/metrics/render.ts";
import type { MetricsSource } from "./families/scrape.ts";
import { agentMetrics } from "./families.ts";

/** An engine answers in milliseconds or not at all; a scrape waits no longer than this. */
const ENGINES_MS = 800;

/** Returns a function that renders one scrape. Overlapping scrapes share one reading of the engines. */
export function createMetrics(source: MetricsSource): () => Promise<string> {
  const { facts, readEngines, readGate, flexinferMetricNames = false } = source;
  const families = flexinferMetricNames ? withFlexinferNames(agentMetrics) : agentMetrics;
  let running: Promise<string> | undefined;
  const scrape = async (): Promise<string> => {
    const [engines, gate] = await Promise.all([readEngines(ENGINES_MS), readGate(ENGINES_MS)]);
    const { user, system } = process.cpuUsage();
    const { rss: residentBytes, heapUsed: heapUsedBytes } = process.memoryUsage();
    const cpuSeconds = (user + system) / 1e6;
    const current = facts();
    const startedAtSeconds = current.startedAtMs / 1_000;
    const processFacts = { cpuSeconds, residentBytes, heapUsedBytes, startedAtSeconds };
    return renderFamilies(families, { ...current, engines, gate, process: processFacts });
  };
  return () => {
    running ??= scrape().finally(() => {
      running = undefined;
    });
    return running;
  };
}
