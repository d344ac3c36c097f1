/** The agent's metrics, rendered per scrape from state that is kept anyway and from the engines themselves. */
import type { MetricsSource } from "./facts.ts";

export interface Metrics {
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

/** An engine answers in milliseconds or not at all; the scrape is never held up for longer. */
const ENGINES_MS = 800;

/** Loads prom-client on first use: an agent that is not scraped does not pay for it. */
export async function createMetrics({ facts, readEngines, readGate }: MetricsSource): Promise<Metrics> {
  // By way of a module of our own: a bundle gives a CommonJS package that is imported like this no names but `default`.
  const { contentType, renderMetrics } = await import("./render.ts");
  let running: Promise<string> | undefined;
  const scrape = async (): Promise<string> => {
    const [engines, gate] = await Promise.all([readEngines(ENGINES_MS), readGate(ENGINES_MS)]);
    const { user, system } = process.cpuUsage();
    const { rss: residentBytes, heapUsed: heapUsedBytes } = process.memoryUsage();
    const cpuSeconds = (user + system) / 1e6;
    const now = facts();
    const startedAtSeconds = now.startedAtMs / 1_000;
    const own = { cpuSeconds, residentBytes, heapUsedBytes, startedAtSeconds };
    return renderMetrics({ ...now, engines, gate, process: own });
  };
  return {
    contentType,
    // Overlapping scrapes share one reading of the engines.
    text: () => {
      running ??= scrape().finally(() => {
        running = undefined;
      });
      return running;
    },
  };
}
