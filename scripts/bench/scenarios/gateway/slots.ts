/** As many clients as a service has slots: each request waits until the gateway knows that the one before it has finished. */
import { INFERENCE_SERVICES } from "../../../../src/api/kinds.ts";
import { must } from "../../../../test/bed/must.ts";
import { type GatewayBed, serveAt } from "../../beds/gateway.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import { NAMESPACE } from "../../beds/plane.ts";
import { ask, closeConnections, openConnections, type Way } from "./requests.ts";

const NAME = "slots";
const SLOTS = 4;
/** About the time of an embedding: the wait for a slot shows. */
const STREAM = { stream: true, tokens: 2, everyMs: 2 };
const LOAD_MS = 3_000;
const ROUNDS = 5;

/** `envoy` has no slots: its clients only wait for the daemon, which is also that of the service. */
export async function measureSlots(
  bed: GatewayBed,
  port: number,
  { gateway, envoy }: { readonly gateway: Way; readonly envoy: Way },
): Promise<readonly ScenarioResult[]> {
  await serveAt(bed, NAME, port);
  const slots = [{ op: "add" as const, path: "/spec/parallelSlots", value: SLOTS }];
  must(await bed.client.jsonPatch(INFERENCE_SERVICES, { name: NAME, namespace: NAMESPACE }, slots));
  await requestsPerSecond(gateway);
  const rates = { envoy: [] as number[], gateway: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1) {
    rates.envoy.push(await requestsPerSecond(envoy));
    rates.gateway.push(await requestsPerSecond(gateway));
  }
  const ratios = rates.gateway.map((rate, round) => (rates.envoy[round] ?? 0) / rate);
  const name = `gateway, ${SLOTS} clients on ${SLOTS} slots, streams of ${STREAM.tokens * STREAM.everyMs} ms`;
  return [
    measured(`${name}: Envoy alone`, "requests/s", rates.envoy),
    measured(`${name}: through it`, "requests/s", rates.gateway),
    measured(`${name}: Envoy alone, to the gateway's`, "ratio", ratios, { p50: 1.11 }),
  ];
}

async function requestsPerSecond(way: Way): Promise<number> {
  const connections = openConnections(SLOTS);
  const body = JSON.stringify({ model: NAME, ...STREAM });
  const startedAt = performance.now();
  let answered = 0;
  await Promise.all(
    connections.map(async (agent) => {
      while (performance.now() - startedAt < LOAD_MS) {
        await ask(way, agent, body);
        answered += 1;
      }
    }),
  );
  closeConnections(connections);
  return (answered * 1_000) / (performance.now() - startedAt);
}
