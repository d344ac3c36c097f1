/** Connections whose local port is chosen by us, so that it is known even when connecting fails. */
import { Agent, type ClientRequestArgs } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";

const FIRST_PORT = 12_000;
const LAST_PORT = 20_999;

const ports = new WeakMap<Duplex, number>();
let lastPort = FIRST_PORT - 1;

/** Of a connection that one of our agents made. */
export function localPortOf(socket: Duplex): number | undefined {
  return ports.get(socket);
}

/** llama-server ends a connection after 100 requests; whoever sends the next at that moment is reset, drain or no drain. */
const MAX_USES = 90;

const uses = new WeakMap<Duplex, number>();
const last = new WeakSet<Duplex>();

/** The request that is sent on it is its last: llama-server ends a connection after a streamed answer, without a word. */
export function endAfterThis(socket: Duplex): void {
  last.add(socket);
}

class KnownPortAgent extends Agent {
  override keepSocketAlive(socket: Duplex): boolean {
    const used = (uses.get(socket) ?? 0) + 1;
    uses.set(socket, used);
    // Typed as void; what it answers decides.
    return used < MAX_USES && !last.has(socket) && (super.keepSocketAlive(socket) as unknown) !== false;
  }

  override createConnection(options: ClientRequestArgs): Socket {
    lastPort = lastPort >= LAST_PORT ? FIRST_PORT : lastPort + 1;
    const socket = connect({
      host: options.host ?? "",
      port: Number(options.port),
      localPort: lastPort,
      noDelay: true,
    });
    ports.set(socket, lastPort);
    return socket;
  }
}

/** Keeps connections and never longer idle than the engine does (5 s): that race is every HTTP client's own. */
export function keepAliveAgent(): Agent {
  return new KnownPortAgent({ keepAlive: true, maxFreeSockets: 4, timeout: 3_500 });
}

export function freshAgent(): Agent {
  return new KnownPortAgent({ keepAlive: false });
}
