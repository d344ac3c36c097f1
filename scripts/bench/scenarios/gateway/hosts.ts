/** One of two hosts dies under load and its slice stays ready; a new slice brings it back. */
import { setTimeout as pause } from "node:timers/promises";
import { ENDPOINT_SLICES } from "../../../../src/kube/kinds.ts";
import { must } from "../../../../test/bed/must.ts";
import { type GatewayBed, serveAt, sliceOf } from "../../beds/gateway.ts";
import { type Measurement, measured } from "../../beds/measurement.ts";
import { startPacedDaemon } from "../../beds/paced-daemon.ts";
import { ask, closeConnections, openConnections, type Way } from "./requests.ts";

const PAIR = "pair";
const ROUNDS = 3;
const PER_SECOND = 20;
const BEFORE_MS = 1_000;
const AFTER_MS = 3_000;
const BODY = JSON.stringify({ model: PAIR, stream: true, tokens: 10, everyMs: 20 });

/** `way` has a key. */
export async function measureHostKills(bed: GatewayBed, way: Way): Promise<readonly Measurement[]> {
  await serveAt(bed, PAIR, (await bed.startDaemon()).port, way.headers);
  let own = 0;
  let others = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const doomed = await startPacedDaemon(bed.address);
    const name = `${PAIR}-${round}`;
    must(await bed.client.create(ENDPOINT_SLICES, sliceOf(name, PAIR, [bed.address], doomed.port)));
    const load = startRequests(way);
    await pause(BEFORE_MS);
    const killedAt = performance.now();
    await doomed.kill();
    await pause(AFTER_MS);
    for (const { sentAt, error } of await load.stop()) {
      // Only what was sent before can have been on it.
      if (sentAt < killedAt) own += 1;
      else {
        others += 1;
        console.error(error);
      }
    }
  }
  const title = `gateway, one of two hosts killed, ${PER_SECOND} requests/s`;
  return [
    measured(`${title}: failed requests that were on it`, "requests", [own]),
    measured(`${title}: other failed requests`, "requests", [others], { max: 0 }),
  ];
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
    const answer = ask(way, agent, BODY).then(
      () => {},
      (error: unknown) => {
        failed.push({ sentAt, error: String(error) });
      },
    );
    sent.push(answer);
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
