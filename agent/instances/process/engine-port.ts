/** Chooses an engine's port: its previous one if that is free, otherwise the first free port of the range. */
import { connect, createServer } from "node:net";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { isLoopback } from "../../../src/http/loopback.ts";

const CONNECT_TIMEOUT_MS = 500;

export interface PortChoice {
  /** First and last port, both included. */
  readonly range: readonly [number, number];
  /** Ports of this agent's other replicas, running or reserved. */
  readonly taken: ReadonlySet<number>;
  readonly previous?: number;
  /** The registered address, on which the engine listens in addition to loopback. */
  readonly address?: string;
}

/** Throws `PortsExhausted`, or `HostAddressMissing` if the address is not up on this machine. */
export async function chooseEnginePort({ range, taken, previous, address }: PortChoice): Promise<number> {
  const [first, last] = range;
  const hosts = address === undefined || isLoopback(address) ? ["127.0.0.1"] : ["127.0.0.1", address];
  const isAllowed = (port: number) => port >= first && port <= last && !taken.has(port);
  if (previous !== undefined && isAllowed(previous) && (await isFree(previous, hosts))) return previous;
  for (let port = first; port <= last; port += 1) {
    if (port !== previous && isAllowed(port) && (await isFree(port, hosts))) return port;
  }
  throw new MetalbridgeError("PortsExhausted", `no port from ${first} to ${last} is free`);
}

/**
 * True if the port has no listener on any of the hosts. Connects before it binds, because on BSD systems a bind to one
 * address succeeds even while another process listens on the port for all addresses.
 */
export async function isFree(port: number, hosts: readonly string[]): Promise<boolean> {
  for (const host of hosts) {
    if (await isPortAnswering(port, host)) return false;
    if (!(await canBind(port, host))) return false;
  }
  return true;
}

export function isPortAnswering(
  port: number,
  host: string,
  timeoutMs = CONNECT_TIMEOUT_MS,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host });
    const done = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    // An answer that arrived while this process was delayed is still unread.
    socket.setTimeout(timeoutMs, () => setImmediate(done, false));
    socket.once("connect", () => done(true));
    socket.once("error", () => done(false));
  });
}

function canBind(port: number, host: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE" || error.code === "EACCES") resolve(false);
      else if (error.code === "EADDRNOTAVAIL")
        reject(new MetalbridgeError("HostAddressMissing", `the address ${host} is not up`));
      else reject(error);
    });
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
