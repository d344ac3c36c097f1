/** Time that a way adds to a request, against direct requests of the same run. */
import { measured, type ScenarioResult, summaryOf } from "../../beds/measurement.ts";
import {
  ask,
  askAtPace,
  CONNECTIONS,
  closeConnections,
  openConnections,
  type Pace,
  type Way,
} from "./requests.ts";

/** What two cores do without a queue: it would be measured instead of the way. */
const SMALL = { bytes: 2_000, pace: { perSecond: 200, requests: 400 } };
const LARGE = { bytes: 200_000, pace: { perSecond: 40, requests: 100 } };
const BLOCKS = 10;
const FLOOD_MS = 3_000;

export interface GatewayWays {
  readonly direct: Way;
  readonly gateway: Way;
  /** By the base URL of the service. */
  readonly service: Way;
}

export async function measureLatency({
  direct,
  gateway,
  service,
}: GatewayWays): Promise<readonly ScenarioResult[]> {
  const small = await timesOf([direct, gateway], SMALL.bytes, SMALL.pace);
  const large = await timesOf([direct, gateway, service], LARGE.bytes, LARGE.pace);
  const name = (kb: number, { perSecond }: Pace) =>
    `gateway, prompt of ${kb} KB, ${CONNECTIONS} connections, ${perSecond} requests/s`;
  const smallName = name(2, SMALL.pace);
  const largeName = name(200, LARGE.pace);
  return [
    measured(`${smallName}: direct`, "ms", small(direct).flat()),
    measured(`${smallName}: through it`, "ms", small(gateway).flat()),
    measured(`${smallName}: added p50 per block`, "ms", addedTo(small(direct), small(gateway), "p50"), {
      p50: 0.5,
    }),
    measured(`${smallName}: added p99 per block`, "ms", addedTo(small(direct), small(gateway), "p99"), {
      p50: 2,
    }),
    measured(`${largeName}: direct`, "ms", large(direct).flat()),
    measured(`${largeName}: through it`, "ms", large(gateway).flat()),
    measured(`${largeName}: added p50 per block`, "ms", addedTo(large(direct), large(gateway), "p50"), {
      p50: 1.5,
    }),
    measured(
      `${largeName}, base URL of the service: added p50 per block`,
      "ms",
      addedTo(large(direct), large(service), "p50"),
    ),
    await measureFlood(direct),
    await measureFlood(gateway),
  ];
}

type Blocks = readonly (readonly number[])[];

/** All ways in turn, block by block; the first block warms them up. */
export async function timesOf(
  ways: readonly Way[],
  bytes: number,
  pace: Pace,
  blocks = BLOCKS,
): Promise<(way: Way) => Blocks> {
  const connections = openConnections();
  const body = promptOf(bytes);
  const times = new Map<Way, (readonly number[])[]>(ways.map((way) => [way, []]));
  for (let block = 0; block <= blocks; block += 1)
    for (const way of ways) {
      const taken = await askAtPace(way, connections, body, pace);
      if (block > 0) times.get(way)?.push(taken);
    }
  closeConnections(connections);
  return (way) => times.get(way) ?? [];
}

/** One value per block. */
export function addedTo(direct: Blocks, other: Blocks, statistic: "p50" | "p99"): readonly number[] {
  return other.map((times, block) => summaryOf(times)[statistic] - summaryOf(direct[block] ?? [])[statistic]);
}

/** Every client sends its next request when it has its response: what the cores allow, which says nothing of the delay. */
async function measureFlood(way: Way): Promise<ScenarioResult> {
  const connections = openConnections();
  const body = promptOf(SMALL.bytes);
  let succeeded = 0;
  const startedAt = performance.now();
  await Promise.all(
    connections.map(async (agent) => {
      while (performance.now() - startedAt < FLOOD_MS) {
        await ask(way, agent, body);
        succeeded += 1;
      }
    }),
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  closeConnections(connections);
  return measured(
    `gateway, prompt of 2 KB, ${CONNECTIONS} clients without a pace: ${way.name}`,
    "requests/s",
    [succeeded / seconds],
  );
}

const SENTENCE = "Tell me about the sea. ";

export const SERVICE = "bench";

export function promptOf(bytes: number): Buffer {
  const content = SENTENCE.repeat(Math.ceil(bytes / SENTENCE.length));
  return Buffer.from(JSON.stringify({ model: SERVICE, messages: [{ role: "user", content }] }));
}
