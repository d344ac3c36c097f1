/** Streams at the pace of an engine, direct and through the gateway in turn. */
import { measured, type ScenarioResult, summaryOf } from "../../beds/measurement.ts";
import { type GatewayWays, SERVICE } from "./latency.ts";
import { ask, CONNECTIONS, closeConnections, openConnections, type Way } from "./requests.ts";

const ROUNDS = 5;
const PACED = { tokens: 100, everyMs: 20 };

export async function measureStreams({
  direct,
  gateway,
}: Pick<GatewayWays, "direct" | "gateway">): Promise<readonly ScenarioResult[]> {
  const connections = openConnections();
  const body = Buffer.from(JSON.stringify({ model: SERVICE, stream: true, ...PACED }));
  const run = async (way: Way) => {
    const startedAt = performance.now();
    const responses = await Promise.all(connections.map((agent) => ask(way, agent, body)));
    return { ms: performance.now() - startedAt, delays: responses.flatMap(({ delaysMs }) => delaysMs) };
  };
  await run(gateway);
  const ratios: number[] = [];
  const later: number[] = [];
  const delays = { direct: [] as number[], gateway: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1) {
    const one = await run(direct);
    const other = await run(gateway);
    ratios.push(other.ms / one.ms);
    later.push(summaryOf(other.delays).p99 - summaryOf(one.delays).p99);
    delays.direct.push(...one.delays);
    delays.gateway.push(...other.delays);
  }
  closeConnections(connections);
  const name = `gateway, ${CONNECTIONS} streams of ${1_000 / PACED.everyMs} tokens/s`;
  return [
    measured(`${name}: direct throughput, to the gateway's`, "ratio", ratios, { p50: 1.031 }),
    measured(`${name}: token sent → received, direct`, "ms", delays.direct),
    measured(`${name}: token sent → received, through it`, "ms", delays.gateway),
    measured(`${name}: p99 of a token, later than direct, per round`, "ms", later, { p50: 5 }),
  ];
}
