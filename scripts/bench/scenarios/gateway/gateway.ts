/** What the gateway costs and what it keeps, with a real Envoy and decision service. */
import { type GatewayBed, openGatewayBed, serveAt } from "../../beds/gateway.ts";
import type { Measurement } from "../../beds/measurement.ts";
import { type GatewayWays, measureLatency, SERVICE } from "./latency.ts";
import { chatPath } from "./requests.ts";
import { measureStreams } from "./streams.ts";

export async function measureGateway(): Promise<readonly Measurement[]> {
  await using bed = await openGatewayBed();
  const ways = await openWays(bed);
  return [...(await measureLatency(ways)), ...(await measureStreams(ways))];
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
