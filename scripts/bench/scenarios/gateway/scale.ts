/** The gateway of a large cluster: memory of its own process, and the time until a change of an endpoint is in force. */
import { setTimeout as pause } from "node:timers/promises";
import { ENDPOINT_SLICES } from "../../../../src/kube/kinds.ts";
import { must } from "../../../../test/bed/must.ts";
import { createServed, type GatewayBed, serveAt, sliceOf } from "../../beds/gateway.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import { NAMESPACE } from "../../beds/plane.ts";
import { inParallel } from "../../beds/scripted-fleet.ts";
import { megabytes } from "../idle.ts";
import { createBenchKey } from "./keys.ts";
import { ask, closeConnections, openConnections, type Way } from "./requests.ts";

const SERVICES = 1_000;
const REPLICAS = 3;
const KEYS = 500;
const CHANGES = 200;
const SETTLED_MS = 20_000;
const MOVING = "moving";
const ASK_EVERY_MS = 2;
/** What came before a change is done. */
const BETWEEN_MS = 30;
/** No program listens there. */
const PORT = 9;

/** `way` has a key. */
export async function measureScale(bed: GatewayBed, way: Way): Promise<readonly ScenarioResult[]> {
  await inParallel(SERVICES, async (index) => {
    const name = `of-many-${index}`;
    await createServed(bed, name);
    for (let replica = 0; replica < REPLICAS; replica += 1) {
      const address = `10.99.${index % 250}.${1 + Math.floor(index / 250) * REPLICAS + replica}`;
      must(await bed.client.create(ENDPOINT_SLICES, sliceOf(`${name}-${replica}`, name, [address], PORT)));
    }
  });
  await inParallel(KEYS, async (index) => {
    await createBenchKey(bed, `of-many-${index}`);
  });
  const changes = await measureChanges(bed, way);
  const name = `gateway, ${SERVICES} services × ${REPLICAS} endpoints, ${KEYS} keys`;
  const grown = memoryOf(bed, `${name}, after ${CHANGES} changes`);
  await bed.gateway.part().kill("SIGKILL");
  await bed.gateway.restart();
  await pause(SETTLED_MS);
  return [
    measured(`${name}: an endpoint changed → requests reach the new one`, "ms", changes, { p99: 100 }),
    ...grown,
    ...memoryOf(bed, `${name}, ${SETTLED_MS / 1_000} s after its start`),
  ];
}

/** Its own process, without Envoy. */
function memoryOf({ gateway }: GatewayBed, name: string): readonly ScenarioResult[] {
  const { pid } = gateway.part();
  return [
    measured(`${name}: anonymous`, "MB", [megabytes(pid, "RssAnon")], { max: 120 }),
    measured(`${name}: resident`, "MB", [megabytes(pid, "VmRSS")]),
  ];
}

/** One endpoint moves between two daemons. From the moment at which its write is sent until a response of the new one has arrived. */
async function measureChanges(bed: GatewayBed, way: Way): Promise<readonly number[]> {
  const ports = [(await bed.startDaemon()).port, (await bed.startDaemon()).port] as const;
  await serveAt(bed, MOVING, ports[0], way.headers);
  const connections = openConnections(1);
  const [agent] = connections;
  if (agent === undefined) throw new Error("there is no connection");
  const body = JSON.stringify({ model: MOVING });
  const times: number[] = [];
  for (let change = 1; change <= CHANGES; change += 1) {
    const value = ports[change % 2 === 0 ? 0 : 1];
    await pause(BETWEEN_MS);
    const startedAt = performance.now();
    const writing = bed.client.jsonPatch(ENDPOINT_SLICES, { name: MOVING, namespace: NAMESPACE }, [
      { op: "replace", path: "/ports/0/port", value },
    ]);
    while (!(await ask(way, agent, body)).text.includes(`"id":"${value}"`)) await pause(ASK_EVERY_MS);
    times.push(performance.now() - startedAt);
    must(await writing);
  }
  closeConnections(connections);
  return times;
}
