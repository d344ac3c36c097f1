/** One of two hosts dies under load and its slice stays ready; a slice is created and deleted. */
import type { Agent } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { ENDPOINT_SLICES } from "../../../../src/kube/kinds.ts";
import { must } from "../../../../test/bed/must.ts";
import { type GatewayBed, serveAt, sliceOf } from "../../beds/gateway.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import { startPacedDaemon } from "../../beds/paced-daemon.ts";
import { NAMESPACE } from "../../beds/plane.ts";
import { ask, closeConnections, openConnections, type Way } from "./requests.ts";

const PAIR = "pair";
const ROUNDS = 3;
const PER_SECOND = 20;
const BEFORE_MS = 1_000;
const AFTER_MS = 3_000;
const SLICES = 20;
const LONG = { stream: true, tokens: 1_000, everyMs: 20 };
const BUSY_MS = 50;
const ASK_EVERY_MS = 2;
const WITHDRAWN_MS = 500;
const BODY = JSON.stringify({ model: PAIR, stream: true, tokens: 10, everyMs: 20 });

/** `way` has a key. */
export async function measureHostKills(bed: GatewayBed, way: Way): Promise<readonly ScenarioResult[]> {
  await serveAt(bed, PAIR, (await bed.startDaemon()).port, way.headers);
  let own = 0;
  let others = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const doomed = await startPacedDaemon(bed.address);
    const slice = await addSlice(bed, `${PAIR}-${round}`, doomed.port);
    const load = startRequests(way);
    await pause(BEFORE_MS);
    await doomed.kill();
    // Only what was sent before can have been on it.
    const killedAt = performance.now();
    await pause(AFTER_MS);
    for (const { sentAt, error } of await load.stop()) {
      if (sentAt < killedAt) own += 1;
      else {
        others += 1;
        console.error(error);
      }
    }
    await slice.remove();
  }
  const title = `gateway, one of two hosts killed, ${PER_SECOND} requests/s`;
  return [
    measured(`${title}: failed requests that were on it`, "requests", [own]),
    measured(`${title}: other failed requests`, "requests", [others], { max: 0 }),
    ...(await measureSlices(bed, way)),
  ];
}

async function addSlice({ client, address }: GatewayBed, name: string, port: number) {
  must(await client.create(ENDPOINT_SLICES, sliceOf(name, PAIR, [address], port)));
  return {
    remove: async () => void must(await client.remove(ENDPOINT_SLICES, { name, namespace: NAMESPACE })),
  };
}

/** A second host of a service, which stays alive: from the write of its slice until requests reach it, or the last one has. */
async function measureSlices(bed: GatewayBed, way: Way): Promise<readonly ScenarioResult[]> {
  await using daemon = await startPacedDaemon(bed.address);
  const connections = openConnections(1);
  const [agent] = connections;
  if (agent === undefined) throw new Error("there is no connection");
  const first: number[] = [];
  const last: number[] = [];
  for (let round = 0; round < SLICES; round += 1) {
    // With a request in flight on the first host, the next one is for the second.
    const busy = openConnections(1);
    for (const one of busy) ask(way, one, JSON.stringify({ model: PAIR, ...LONG })).catch(() => {});
    await pause(BUSY_MS);
    const createdAt = performance.now();
    const slice = await addSlice(bed, `${PAIR}-second-${round}`, daemon.port);
    while (!(await reaches(way, agent, daemon.port))) await pause(ASK_EVERY_MS);
    first.push(performance.now() - createdAt);
    closeConnections(busy);
    const removedAt = performance.now();
    await slice.remove();
    let lastAt = removedAt;
    while (performance.now() - removedAt < WITHDRAWN_MS) {
      const sentAt = performance.now();
      if (await reaches(way, agent, daemon.port)) lastAt = sentAt;
      await pause(ASK_EVERY_MS);
    }
    last.push(lastAt - removedAt);
  }
  closeConnections(connections);
  return [
    measured("gateway, slice of a second host created → a request reaches it", "ms", first, { max: 100 }),
    measured("gateway, slice of a second host deleted → the last request to it", "ms", last, { max: 100 }),
  ];
}

async function reaches(way: Way, agent: Agent, port: number): Promise<boolean> {
  return (await ask(way, agent, JSON.stringify({ model: PAIR }))).text.includes(`"id":"${port}"`);
}

interface Failed {
  readonly sentAt: number;
  readonly error: string;
}

/** Sent at fixed times, whatever came of the others. */
function startRequests(way: Way) {
  const connections = openConnections();
  const failed: Failed[] = [];
  const sent: Promise<void>[] = [];
  const timer = setInterval(() => {
    const agent = connections[sent.length % connections.length];
    if (agent === undefined) return;
    const sentAt = performance.now();
    const response = ask(way, agent, BODY).then(
      () => {},
      (error: unknown) => {
        failed.push({ sentAt, error: String(error) });
      },
    );
    sent.push(response);
  }, 1_000 / PER_SECOND);
  return {
    stop: async (): Promise<readonly Failed[]> => {
      clearInterval(timer);
      await Promise.all(sent);
      closeConnections(connections);
      return failed;
    },
  };
}
