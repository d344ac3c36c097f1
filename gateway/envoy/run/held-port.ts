/** Holds the port of the gateway while no Envoy listens there: connections wait, and are passed to the next Envoy. */
import { once } from "node:events";
import { createConnection, createServer, isIPv4, type Server, type Socket } from "node:net";
import { explainListenError } from "../../../src/http/listener.ts";
import { isLoopback } from "../../../src/http/loopback.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { ListenAddress } from "../types.ts";

export interface HeldPortOptions {
  /** Socket of Envoy's second listener, on which a connection has one request. */
  readonly passTo: string;
  /** Plain HTTP: a client that has waited too long gets a response. */
  readonly isPlain: boolean;
  readonly clock: Clock;
  readonly log: Log;
  /** Closes the port and all connections. */
  readonly signal: AbortSignal;
}

export interface HeldPort {
  /**
   * Holds this address and no other one, unless the port is released. Connections of another address continue, except if this one
   * is loopback. Where the system cannot, connections are refused while Envoy restarts.
   */
  readonly hold: (listen: ListenAddress) => Promise<void>;
  /** Throws PortTaken if the port is not held, and another program has it. */
  readonly requireFree: () => Promise<void>;
  /** Refuses new connections for good. Those that it has accepted continue. */
  readonly release: () => void;
}

const MAX_CONNECTIONS = 4_096;
/** Read of a connection that waits. With more to read, it is not seen whether its client leaves. */
const READ_BYTES = 16 << 10;
const RETRY_MS = 20;
/** The kubelet waits for 10 s before the second restart of a container. */
const WAIT_MS = 30_000;
/** For a client that reads its response slowly. */
const LAST_MS = 1_000;

const BODY = JSON.stringify({
  type: "error",
  error: {
    type: "overloaded_error",
    message:
      "Envoy, which carries the requests of this gateway, is not running. It is restarted automatically: retry in a few seconds. If the error persists, the log of the gateway has the reason (envoy exited).",
    param: null,
    code: "gateway_unavailable",
  },
});
/** The path of the request is not known here, so the body is an error for clients of OpenAI's and of Anthropic's API. */
const UNAVAILABLE = [
  "HTTP/1.1 503 Service Unavailable",
  "content-type: application/json",
  `content-length: ${Buffer.byteLength(BODY)}`,
  "retry-after: 5",
  "x-should-retry: true",
  "connection: close",
  "",
  BODY,
].join("\r\n");

/**
 * Linux prefers a socket of IPv4 to a socket of IPv6 with the same IPv4 address, if both share the port (SO_REUSEPORT). So Envoy,
 * on IPv4, gets all connections while it listens, and this one, on IPv6, the others. A connection that waits in the queue of a
 * killed Envoy is lost: the kernel resets it.
 */
export function createHeldPort(options: HeldPortOptions): HeldPort {
  const { log, signal } = options;
  const open = new Set<Socket>();
  let server: Server | undefined;
  let held: ListenAddress | undefined;
  let isReleased = false;
  const close = (): void => {
    server?.close();
    server = undefined;
  };
  const closeAll = (): void => {
    isReleased = true;
    close();
    for (const socket of open) socket.destroy();
  };
  const pass = createPass(options);
  const accept = (socket: Socket): void => {
    open.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => open.delete(socket));
    void pass(socket);
  };
  signal.addEventListener("abort", closeAll, { once: true });
  return {
    hold: async (listen) => {
      close();
      const { address, port } = listen;
      if (isLoopback(address)) for (const socket of open) socket.destroy();
      held = listen;
      if (isReleased || !isIPv4(address)) return;
      const next = createServer({ allowHalfOpen: true }, accept).unref();
      next.maxConnections = MAX_CONNECTIONS;
      try {
        await once(next.listen({ host: `::ffff:${address}`, port, reusePort: true }), "listening");
      } catch (err) {
        log.info(
          { err, address, port },
          "connections are refused while Envoy restarts: cannot share its port",
        );
        return;
      }
      // For example, too many files are open. The client connects again.
      next.on("error", () => {});
      server = next;
      if (isReleased) close();
    },
    requireFree: async () => {
      if (server === undefined && held !== undefined) await requireFree(held);
    },
    release: () => {
      isReleased = true;
      close();
    },
  };
}

/** Envoy itself would share the port with another process of this user. */
export async function requireFree({ address, port }: ListenAddress): Promise<void> {
  const server = createServer();
  try {
    await once(server.listen({ host: address, port, exclusive: true }), "listening");
  } catch (cause) {
    throw explainListenError(cause, address, port);
  }
  server.close();
  await once(server, "close");
}

/** Passes a connection to Envoy as soon as one listens, or answers it after `WAIT_MS`. */
function createPass({ passTo, isPlain, clock, signal }: HeldPortOptions): (client: Socket) => Promise<void> {
  const pause = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
  let attempt: Promise<boolean> | undefined;
  /** One attempt at a time for all that wait. */
  const listens = async (): Promise<boolean> => {
    const envoy = await connectTo(passTo);
    envoy?.destroy();
    if (envoy === undefined) await pause(RETRY_MS);
    return envoy !== undefined;
  };
  return async (client) => {
    const stopReading = readWhileWaiting(client);
    const deadline = clock.monotonicMs() + WAIT_MS;
    while (!client.destroyed && !signal.aborted && clock.monotonicMs() < deadline) {
      attempt ??= listens().finally(() => {
        attempt = undefined;
      });
      const envoy = (await attempt) ? await connectTo(passTo) : undefined;
      if (envoy === undefined) continue;
      envoy.write(stopReading());
      return client.destroyed ? void envoy.destroy() : join(client, envoy);
    }
    stopReading();
    if (isPlain && !client.destroyed) {
      // A response before the end of the request would be reset.
      client.resume().end(UNAVAILABLE);
      await pause(LAST_MS);
    }
    client.destroy();
  };
}

/** Destroys the connection of a client that leaves. The result stops it, and returns what was read. */
function readWhileWaiting(client: Socket): () => Buffer {
  const chunks: Buffer[] = [];
  let size = 0;
  const keep = (chunk: Buffer): void => {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= READ_BYTES) client.pause();
  };
  const leave = (): void => void client.destroy();
  client.on("data", keep).on("end", leave);
  return () => {
    client.off("data", keep).off("end", leave).pause();
    return Buffer.concat(chunks);
  };
}

/** Undefined if nothing listens. */
function connectTo(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = createConnection({ path, allowHalfOpen: true });
    socket.once("connect", () => resolve(socket));
    socket.on("error", () => resolve(undefined));
  });
}

function join(client: Socket, envoy: Socket): void {
  for (const [from, to] of [
    [client, envoy],
    [envoy, client],
  ] as const)
    from.pipe(to).once("close", () => from.destroySoon());
}
