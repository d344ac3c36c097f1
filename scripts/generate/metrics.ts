/** Parts of docs/observability.md: every metric of the agent, the controller and the server. */
import { agentMetrics } from "../../agent/metrics/families.ts";
import { controllerMetrics } from "../../controller/metrics/families.ts";
import { serverMetrics } from "../../server/metrics.ts";
import type { MetricFamily } from "../../src/http/metrics/family.ts";

/** The agent's. */
export function agentMetricLines(): string[] {
  return table(agentMetrics);
}

/** The controller's. */
export function controllerMetricLines(): string[] {
  return table(controllerMetrics);
}

/** The server's. */
export function serverMetricLines(): string[] {
  return table(serverMetrics());
}

function table<Facts>(families: readonly MetricFamily<Facts>[]): string[] {
  return [
    "| metric | type | labels | what it says |",
    "|---|---|---|---|",
    ...families.map(({ name, type, labels = [], help }) => {
      const shown = labels.map((label) => `\`${label}\``).join(", ");
      return `| \`${name}\` | ${type} | ${shown} | ${help.replaceAll("|", "\\|")} |`;
    }),
  ];
}
