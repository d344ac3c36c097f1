/** Ports for the API servers of tests, out of the reach of everybody who takes any free one. */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * kube-apiserver binds its port seconds after it was chosen. One that the kernel gives away (from 32768 on) may belong to
 * another test by then; below 23000 are the engines of the runner's tests, up to 23999 those of whole systems.
 */
const FIRST = 24_000;
const LAST = 29_999;
const TRIES = 50;

export async function freePort(address = "127.0.0.1"): Promise<number> {
  for (let left = TRIES; left > 0; left -= 1) {
    const port = randomInt(FIRST, LAST + 1);
    if (await isFree(address, port)) return port;
  }
  throw new Error(`no free port between ${FIRST} and ${LAST} in ${TRIES} tries`);
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
