/** Every metric of the agent, in output order. */
import type { MetricFamily } from "../../src/http/metrics/family.ts";
import { processFamilies } from "../../src/http/metrics/process.ts";
import { agentFamilies } from "./families/agent.ts";
import { engineFamilies } from "./families/engine.ts";
import { gateFamilies } from "./families/gate.ts";
import { agentHostFamilies } from "./families/host.ts";
import { liveFamilies } from "./families/live.ts";
import { replicaFamilies } from "./families/replica.ts";
import type { Scrape } from "./families/scrape.ts";

export const agentMetrics: readonly MetricFamily<Scrape>[] = [
  ...agentFamilies,
  ...agentHostFamilies,
  ...replicaFamilies,
  ...engineFamilies,
  ...liveFamilies,
  ...gateFamilies,
  ...processFamilies,
];
