/** Node's TLS, loaded with the first route that needs it: 5 MB. */
import type { createServer } from "node:https";

export function tlsServers(): typeof createServer {
  return process.getBuiltinModule("node:https").createServer;
}
