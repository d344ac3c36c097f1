/** The extender's port. It is one of its own, because kube-scheduler sends no token, and nobody else is answered without one. */
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { limitConnections } from "../../src/http/connections.ts";
import { listenOn } from "../../src/http/listener.ts";
import type { Log } from "../../src/util/ports.ts";
import { followTls, readTls, type TlsFiles } from "../tls-files.ts";
import { type AppOptions, createApp } from "./app.ts";

/** A scheduler needs few connections; all schedulers of a cluster may share one address. */
const CONNECTIONS = { total: 128, perAddress: 64 };
const REQUEST_MS = 10_000;

export interface ListenForSchedulers extends AppOptions {
  readonly address: string;
  readonly port: number;
  /** Undefined: plain HTTP. */
  readonly files: TlsFiles | undefined;
  readonly log: Log;
  /** Ends the connections. */
  readonly signal: AbortSignal;
}

/** Resolves once it listens. `close` resolves when the requests in flight are answered; each takes at most its budget. */
export async function listenForSchedulers({
  address,
  port,
  files,
  log,
  signal,
  ...options
}: ListenForSchedulers) {
  const app = createApp({ ...options, log });
  const limits = { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS };
  const server =
    files === undefined
      ? createHttpServer(limits, app)
      : createHttpsServer({ ...limits, ...(await readTls(files)) }, app);
  limitConnections(server, CONNECTIONS);
  if (files !== undefined && "setSecureContext" in server) followTls(server, files, { log, signal });
  const bound = await listenOn(server, { address, port, signal });
  const close = async (): Promise<void> => {
    server.closeIdleConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { port: bound, close };
}
