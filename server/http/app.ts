/** The fastify apps of this room: each port is one, with its own limits. */
import type { ServerOptions } from "node:http";
import type { AddressInfo } from "node:net";
import Fastify, { type FastifyInstance, type FastifyServerOptions } from "fastify";
import { type ConnectionLimits, limitConnections } from "../../src/http/connections.ts";
import { explainListenError } from "../../src/http/listener.ts";

export interface HttpAppOptions extends FastifyServerOptions {
  /** Settings of node's server, for which fastify has no option. */
  readonly server?: ServerOptions;
  readonly connections?: ConnectionLimits;
  /** Undefined: plain HTTP. */
  readonly tls?: { readonly key: Buffer; readonly cert: Buffer } | undefined;
}

const HANDSHAKE_MS = 10_000;

export function createHttpApp({
  server = {},
  connections,
  tls,
  ...options
}: HttpAppOptions): FastifyInstance {
  const app = Fastify({
    ...options,
    ...(tls === undefined
      ? { http: server }
      : { https: { ...server, ...tls, handshakeTimeout: HANDSHAKE_MS } }),
  }) as unknown as FastifyInstance;
  if (connections !== undefined) limitConnections(app.server, connections);
  return app;
}

/** Resolves with the port. Rejects with `PortTaken` or `ListenFailed`. */
export async function listenApp(
  app: FastifyInstance,
  { address, port }: { readonly address: string; readonly port: number },
): Promise<number> {
  // Fastify would open a second server for the other address of localhost, without the guards of this one.
  const host = address === "localhost" ? "127.0.0.1" : address;
  await app.listen({ host, port }).catch((cause: unknown) => {
    throw explainListenError(cause, address, port);
  });
  // For example, too many files are open. The client will connect again.
  app.server.on("error", () => {});
  return (app.server.address() as AddressInfo).port;
}
