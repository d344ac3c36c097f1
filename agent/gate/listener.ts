/** Creates a route's HTTP server with the route's limits. */

import { constants } from "node:crypto";
import { createServer, type Server, type ServerOptions } from "node:http";
import type { SecureContextOptions } from "node:tls";
import type { GateLimits, GateRoute } from "./routes.ts";
import { MAX_UNPROVED } from "./sealed-clients.ts";

const HEADER_BYTES = 16 * 1024;
const KEEPALIVE_PROBE_MS = 30_000;

export function createListener(
  { headMs, requestMs, idleMs, connections }: GateLimits,
  tls: GateRoute["tls"],
): Server {
  const options: ServerOptions = {
    insecureHTTPParser: false,
    // Node would answer a request without it on its own, and bypass the limits.
    requireHostHeader: false,
    maxHeaderSize: HEADER_BYTES,
    headersTimeout: Math.min(headMs, requestMs),
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(headMs / 2, 5_000),
    keepAlive: true,
    keepAliveInitialDelay: KEEPALIVE_PROBE_MS,
  };
  const isSealed = tls?.clientFingerprintsFile !== undefined;
  const server =
    tls === undefined
      ? createServer(options)
      : tlsServers()({
          ...options,
          handshakeTimeout: headMs,
          ALPNProtocols: ["http/1.1"],
          requestCert: isSealed || tls.clientCAFile !== undefined,
          // Any certificate passes the handshake of a sealed route, which proves its key; then its fingerprint decides.
          rejectUnauthorized: !isSealed,
          ...protocolOf(tls),
        });
  // Unlimited: Node would drop headers from the list, such as a length, that its parser still honors.
  server.maxHeadersCount = 0;
  server.maxConnections = connections + (isSealed ? MAX_UNPROVED : 0);
  return server;
}

/** Needed for each new certificate too. A resumed session would present none. */
export function protocolOf(
  tls: NonNullable<GateRoute["tls"]>,
): Pick<SecureContextOptions, "minVersion" | "secureOptions"> {
  return tls.clientFingerprintsFile === undefined
    ? {}
    : { minVersion: "TLSv1.3", secureOptions: constants.SSL_OP_NO_TICKET };
}

/** Loads Node's TLS, 5 MB, with the first route that needs it. */
function tlsServers(): typeof import("node:https").createServer {
  return process.getBuiltinModule("node:https").createServer;
}
