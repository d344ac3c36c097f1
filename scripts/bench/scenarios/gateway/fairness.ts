/** One service with one slot, requested by a key with one client and by a key with a hundred. */
import { INFERENCE_SERVICES } from "../../../../src/api/kinds.ts";
import { must } from "../../../../test/bed/must.ts";
import { type GatewayBed, serveAt } from "../../beds/gateway.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import { NAMESPACE } from "../../beds/plane.ts";
import { createBenchKey } from "./keys.ts";
import { ask, chatPath, closeConnections, openConnections, type Way } from "./requests.ts";

const LOAD_MS = 20_000;
const PAIRS = [
  [
    { clients: 1, weight: 1 },
    { clients: 100, weight: 1 },
  ],
  // One client alone cannot have more than every second use of a slot.
  [
    { clients: 50, weight: 3 },
    { clients: 50, weight: 1 },
  ],
] as const;

interface Contender {
  readonly clients: number;
  readonly weight: number;
}

/** One row per pair. */
export async function measureFairness(bed: GatewayBed): Promise<readonly ScenarioResult[]> {
  const rows: ScenarioResult[] = [];
  for (const [index, pair] of PAIRS.entries()) rows.push(await measurePair(bed, `fair-${index}`, pair));
  return rows;
}

async function measurePair(
  bed: GatewayBed,
  service: string,
  [first, second]: readonly [Contender, Contender],
): Promise<ScenarioResult> {
  const open = async (name: string, { clients, weight }: Contender) => {
    const headers = await createBenchKey(bed, `${service}-${name}`, weight);
    return { clients, way: { name, url: chatPath(bed.gateway.url), headers } };
  };
  const [one, other] = [await open("first", first), await open("second", second)];
  await serveAt(bed, service, (await bed.startDaemon()).port, one.way.headers);
  const slots = [{ op: "add" as const, path: "/spec/parallelSlots", value: 1 }];
  must(await bed.client.jsonPatch(INFERENCE_SERVICES, { name: service, namespace: NAMESPACE }, slots));
  const until = performance.now() + LOAD_MS;
  const [ofFirst = 0, ofSecond = 0] = await Promise.all(
    [one, other].map(({ clients, way }) => countResponses(until, way, clients, service)),
  );
  const share = ofFirst / (ofFirst + ofSecond);
  const off = Math.abs((share * (first.weight + second.weight)) / first.weight - 1) * 100;
  const name = `gateway, keys of weight ${first.weight} and ${second.weight} with ${first.clients} and ${second.clients} clients for one slot`;
  return measured(`${name}: share of the first, off its weight`, "%", [off], { max: 10 });
}

async function countResponses(until: number, way: Way, clients: number, model: string): Promise<number> {
  const connections = openConnections(clients);
  // A stream of 50 ms: as from an engine, the slot is the limit and not the machine.
  const body = JSON.stringify({ model, stream: true, tokens: 5, everyMs: 10 });
  let succeeded = 0;
  await Promise.all(
    connections.map(async (agent) => {
      while (performance.now() < until) {
        await ask(way, agent, body);
        if (performance.now() < until) succeeded += 1;
      }
    }),
  );
  closeConnections(connections);
  return succeeded;
}
