/** Ports for the programs that tests start, such that no two test files that run side by side ever choose the same one. */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Engines: 21000 to 21299 are left to programs that use the agent's default; each worker has 300 above that. API servers:
 * from 24000 on. All of it lies below 32768, where the kernel begins to give ports away.
 */
const ENGINES = { first: 21_300, perWorker: 300, workers: 9, perAgent: 30 };
const API_SERVERS = { first: 24_000, last: 29_999 };
const TRIES = 50;

let given = 0;

/** The first and last port for the engines of one agent. An engine listens on loopback too, so farms do not share them. */
export function enginePorts(): readonly [number, number] {
  const { first, perWorker, workers, perAgent } = ENGINES;
  const worker = Number(process.env.VITEST_POOL_ID ?? 1) - 1;
  const from = first + perWorker * (worker % workers) + ((given * perAgent) % perWorker);
  given += 1;
  return [from, from + perAgent - 1];
}

/** kube-apiserver binds its port seconds after it was chosen: one that the kernel gives away may be taken by then. */
export async function freePort(address = "127.0.0.1"): Promise<number> {
  const { first, last } = API_SERVERS;
  for (let left = TRIES; left > 0; left -= 1) {
    const port = randomInt(first, last + 1);
    if (await isFree(address, port)) return port;
  }
  throw new Error(`no free port between ${first} and ${last} in ${TRIES} tries`);
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
