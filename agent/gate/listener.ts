/** A route's server as Node makes it, with the route's limits. */
import { createServer, type Server, type ServerOptions } from "node:http";
import type { GateLimits } from "./routes.ts";

const HEADER_BYTES = 16 * 1024;
const KEEPALIVE_PROBE_MS = 30_000;

export function createListener(
  { headMs, requestMs, idleMs, connections }: GateLimits,
  hasTls: boolean,
): Server {
  const options: ServerOptions = {
    insecureHTTPParser: false,
    // Node would answer such a request itself, past the limits.
    requireHostHeader: false,
    maxHeaderSize: HEADER_BYTES,
    headersTimeout: Math.min(headMs, requestMs),
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(headMs / 2, 5_000),
    keepAlive: true,
    keepAliveInitialDelay: KEEPALIVE_PROBE_MS,
  };
  const server = hasTls
    ? tlsServers()({ ...options, handshakeTimeout: headMs, ALPNProtocols: ["http/1.1"] })
    : createServer(options);
  // All of them: a length that Node leaves out still counts for its parser.
  server.maxHeadersCount = 0;
  server.maxConnections = connections;
  return server;
}

/** Node's TLS, loaded with the first route that needs it: 5 MB. */
function tlsServers(): typeof import("node:https").createServer {
  return process.getBuiltinModule("node:https").createServer;
}
