/** Parts of docs/observability.md: every metric of the agent, of `metalbridge node`, the controller, the gateway and the server. */
import { agentMetrics } from "../../agent/metrics/families.ts";
import { nodeMetrics } from "../../agent/node/gauges.ts";
import { controllerMetrics } from "../../controller/frame/metrics/families.ts";
import { gatewayFamilies } from "../../gateway/metrics.ts";
import { extenderMetrics } from "../../server/extender/metrics.ts";
import { serverMetrics } from "../../server/metrics.ts";
import type { MetricFamily } from "../../src/http/metrics/family.ts";
import { escapeCell, markdownTable } from "./markdown.ts";

/** A table for each part of the page. */
export function metricParts(): Readonly<Record<string, readonly string[]>> {
  return {
    "metrics of the agent": table(agentMetrics),
    "metrics of nodes": table(nodeMetrics),
    "metrics of the controller": table(controllerMetrics),
    "metrics of the gateway": table(gatewayFamilies),
    "metrics of the server": table(serverMetrics()),
    "metrics of the scheduler extender": table(extenderMetrics),
  };
}

function table<Facts>(families: readonly MetricFamily<Facts>[]): string[] {
  const rows = families.map(({ name, type, labels = [], help }) => {
    const shown = labels.map((label) => `\`${label}\``).join(", ");
    return [`\`${name}\``, type, shown, escapeCell(help)];
  });
  return markdownTable(["metric", "type", "labels", "what it says"], rows);
}
