/** Requests that fail during kills and restarts of the decision service, of upgrades of Envoy, and of new services and keys. */
import { constants } from "node:fs";
import { copyFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type GatewayBed, serveAt } from "../../beds/gateway.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import { createBenchKey } from "./keys.ts";
import { SERVICE } from "./latency.ts";
import { ask, closeConnections, openConnections, type Way } from "./requests.ts";

const CLIENTS = 16;
const KILLS = 5;
const UPGRADES = 2;
/** A fifth of a second of tokens. */
const STREAM = { stream: true, tokens: 10, everyMs: 20 };
const BETWEEN_MS = 1_000;
/** A third Envoy ends the first one, and a request held there when the decision service was killed asks again at random intervals. */
const BETWEEN_UPGRADES_MS = 10_000;
const PAUSE_MS = 20;

/** Half of the clients request streams. `way` has a key. */
export async function measureLosses(bed: GatewayBed, way: Way): Promise<readonly ScenarioResult[]> {
  const load = startClients(way);
  for (let kill = 0; kill < KILLS; kill += 1) {
    await bed.gateway.part().kill("SIGKILL");
    await bed.gateway.restart();
    await pause(BETWEEN_MS);
  }
  const other = path.join(bed.dir, "envoy");
  await copyFile(bed.gateway.envoy, other, constants.COPYFILE_FICLONE);
  for (let upgrade = 1; upgrade <= UPGRADES; upgrade += 1) {
    const before = bed.gateway.envoyPid();
    await bed.gateway.part().kill("SIGKILL");
    // An upgrade is another program file; the limit is a setting of the listener.
    const program = upgrade % 2 === 1 ? other : bed.gateway.envoy;
    await bed.gateway.restart("--envoy", program, "--max-body-bytes", String(2 ** 25 + upgrade));
    if (bed.gateway.envoyPid() === before) throw new Error("Envoy was not replaced");
    await pause(BETWEEN_UPGRADES_MS);
  }
  const { port } = await bed.startDaemon();
  const headers = await createBenchKey(bed, "added");
  await serveAt(bed, "added", port, headers);
  await pause(BETWEEN_MS);
  const { succeeded, failures } = await load.stop();
  for (const failure of new Set(failures)) console.error(failure);
  const name = `gateway, ${KILLS} kills of the decision service, ${UPGRADES} upgrades of Envoy with a changed setting, a new service and key`;
  return [
    measured(`${name}: all requests`, "requests", [succeeded + failures.length]),
    measured(`${name}: failed or truncated`, "requests", [failures.length], { max: 0 }),
  ];
}

function startClients(way: Way) {
  const connections = openConnections(CLIENTS);
  const failures: string[] = [];
  let succeeded = 0;
  let isOver = false;
  const clients = connections.map(async (agent, index) => {
    const body = JSON.stringify({ model: SERVICE, ...(index % 2 === 0 && STREAM) });
    while (!isOver) {
      await ask(way, agent, body).then(
        () => {
          succeeded += 1;
        },
        (error: unknown) => failures.push(`${new Date().toISOString()} ${String(error)}`),
      );
      await pause(PAUSE_MS);
    }
  });
  return {
    stop: async () => {
      isOver = true;
      await Promise.all(clients);
      closeConnections(connections);
      return { succeeded, failures };
    },
  };
}
