/** Cost and memory of the gateway, with a real Envoy and decision service. */
import { Agent } from "node:http";
import { until } from "../../../../test/bed/until.ts";
import { type GatewayBed, openGatewayBed, serveAt } from "../../beds/gateway.ts";
import type { ScenarioResult } from "../../beds/measurement.ts";
import { measureBeside } from "./beside.ts";
import { measureCosts } from "./costs.ts";
import { measureFairness } from "./fairness.ts";
import { measureHostKills } from "./hosts.ts";
import { createBenchKey, createKeyNamespace } from "./keys.ts";
import { type GatewayWays, measureLatency, SERVICE } from "./latency.ts";
import { measureLosses } from "./losses.ts";
import { ask, chatPath } from "./requests.ts";
import { measureScale } from "./scale.ts";
import { measureStreams } from "./streams.ts";
import { measureWakes } from "./wake.ts";

export async function measureGateway(): Promise<readonly ScenarioResult[]> {
  return [...(await measureDaemons()), ...(await measureWakes())];
}

async function measureDaemons(): Promise<readonly ScenarioResult[]> {
  await using bed = await openGatewayBed();
  const ways = await openWays(bed);
  const latency = await measureLatency(ways);
  const costs = await measureCosts(bed.gateway, ways.gateway);
  const streams = await measureStreams(ways);
  const beside = await measureBeside(bed, ways);
  // From the first key on, every request needs one.
  await createKeyNamespace(bed);
  const keyed = { ...ways.gateway, headers: await createBenchKey(bed, "bench") };
  await until(() => ask(keyed, new Agent(), JSON.stringify({ model: SERVICE })));
  const losses = await measureLosses(bed, keyed);
  const hosts = await measureHostKills(bed, keyed);
  const fairness = await measureFairness(bed);
  const scale = await measureScale(bed, keyed);
  return [...latency, ...costs, ...streams, ...beside, ...losses, ...hosts, ...fairness, ...scale];
}

async function openWays(bed: GatewayBed): Promise<GatewayWays> {
  const { port } = await bed.startDaemon();
  await serveAt(bed, SERVICE, port);
  const { url } = bed.gateway;
  return {
    direct: { name: "direct", url: chatPath(`http://${bed.address}:${port}`) },
    gateway: { name: "gateway", url: chatPath(url) },
    service: { name: "gateway, base URL of the service", url: chatPath(`${url}/s/default/${SERVICE}`) },
  };
}
