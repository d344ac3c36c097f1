/** Ports for the programs that tests start, such that no two test files that run side by side ever choose the same one. */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Engines: 21000 to 21299 are left to programs that use the agent's default; each worker has 300 above that. Servers: from
 * 24000 on, 600 for each worker. All of it lies below 32768, where the kernel begins to give ports away.
 */
const ENGINES = { first: 21_300, perWorker: 300, workers: 9, perAgent: 30 };
/** One share more than for engines: what runs before the workers takes ports too. */
const SERVERS = { first: 24_000, perWorker: 600, shares: 10 };
const TRIES = 50;

let given = 0;
const taken = new Set<number>();

/** The first and last port for the engines of one agent. An engine listens on loopback too, so farms do not share them. */
export function enginePorts(): readonly [number, number] {
  const { first, perWorker, workers, perAgent } = ENGINES;
  const worker = Number(process.env.VITEST_POOL_ID ?? 1) - 1;
  const from = first + perWorker * (worker % workers) + ((given * perAgent) % perWorker);
  given += 1;
  return [from, from + perAgent - 1];
}

/**
 * Never the same one twice. A program binds its port moments after it was chosen, kube-apiserver seconds: one that the
 * kernel gives away, or another worker chooses, may be taken by then.
 */
export async function freePort(address = "127.0.0.1"): Promise<number> {
  const { perWorker, shares } = SERVERS;
  const first = SERVERS.first + perWorker * (Number(process.env.VITEST_POOL_ID ?? 0) % shares);
  for (let left = TRIES; left > 0; left -= 1) {
    const port = randomInt(first, first + perWorker);
    if (taken.has(port) || !(await isFree(address, port))) continue;
    taken.add(port);
    return port;
  }
  throw new Error(`no free port from ${first} on in ${TRIES} tries`);
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen({ host, port, exclusive: true }), "listening");
    server.close();
    await once(server, "close");
    return true;
  } catch {
    return false;
  }
}
