/** One service with one slot, requested by a key with one client and by a key with a hundred. */
import { INFERENCE_SERVICES } from "../../../../src/api/kinds.ts";
import { must } from "../../../../test/bed/must.ts";
import { type GatewayBed, serveAt } from "../../beds/gateway.ts";
import { type Measurement, measured } from "../../beds/measurement.ts";
import { NAMESPACE } from "../../beds/plane.ts";
import { createBenchKey } from "./keys.ts";
import { ask, chatPath, closeConnections, openConnections, type Way } from "./requests.ts";

const FAIR = "fair";
const CLIENTS = [1, 100] as const;
const LOAD_MS = 20_000;
/** Keys of equal weight. */
const SHARE = 1 / CLIENTS.length;

export async function measureFairness(bed: GatewayBed): Promise<Measurement> {
  const ways: Way[] = [];
  for (const clients of CLIENTS) {
    const headers = await createBenchKey(bed, `with-${clients}`);
    ways.push({ name: `${clients} clients`, url: chatPath(bed.gateway.url), headers });
  }
  const { port } = await bed.startDaemon();
  await serveAt(bed, FAIR, port, ways[0]?.headers);
  const slots = [{ op: "add" as const, path: "/spec/parallelSlots", value: 1 }];
  must(await bed.client.jsonPatch(INFERENCE_SERVICES, { name: FAIR, namespace: NAMESPACE }, slots));
  const until = performance.now() + LOAD_MS;
  const answered = await Promise.all(
    CLIENTS.map((clients, index) => answersUntil(until, ways[index] as Way, clients)),
  );
  const [one = 0, many = 0] = answered;
  const off = Math.abs(one / (one + many) / SHARE - 1) * 100;
  const name = `gateway, keys with ${CLIENTS[0]} and ${CLIENTS[1]} clients for one slot`;
  return measured(`${name}: share of the first, off its weight`, "%", [off], { max: 10 });
}

async function answersUntil(until: number, way: Way, clients: number): Promise<number> {
  const connections = openConnections(clients);
  // A stream of 50 ms: as from an engine, the slot is the limit and not the machine.
  const body = JSON.stringify({ model: FAIR, stream: true, tokens: 5, everyMs: 10 });
  let answered = 0;
  await Promise.all(
    connections.map(async (agent) => {
      while (performance.now() < until) {
        await ask(way, agent, body);
        if (performance.now() < until) answered += 1;
      }
    }),
  );
  closeConnections(connections);
  return answered;
}
