/** HTTP for people, probes and Prometheus: /healthz, /readyz and /metrics on loopback; /metrics elsewhere for who has the token. */
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { MetricsSource } from "./facts.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { isAllowed } from "./token.ts";

export interface ServerOptions extends MetricsSource {
  readonly signal: AbortSignal;
  /** What keeps the agent from being ready; empty when it is. */
  readonly troubles: () => readonly { readonly code: string; readonly message: string }[];
}

export interface AgentServer {
  /** On loopback. 0 takes a free port; resolves with the port once it listens. */
  readonly listen: (port: number) => Promise<number>;
  /** Metrics alone, for whoever sends the token in the file. */
  readonly listenOutside: (place: OutsidePlace) => Promise<void>;
}

export interface OutsidePlace {
  readonly address: string;
  readonly port: number;
  readonly tokenFile: string;
}

/** Listens nowhere yet. */
export function createAgentServer({ signal, troubles, ...source }: ServerOptions): AgentServer {
  let loaded: Promise<Metrics> | undefined;
  const sendMetrics = (response: ServerResponse): void => {
    loaded ??= createMetrics(source);
    loaded
      .then(async ({ text, contentType }) => send(response, 200, await text(), contentType))
      .catch((error: unknown) => send(response, 500, `${String(error)}\n`));
  };
  const inside: RequestListener = (request, response) => {
    const path = pathOf(request.url);
    if (path === "/healthz") return send(response, 200, "ok\n");
    if (path === "/readyz") return sendReadiness(response, troubles());
    if (path !== "/metrics") return send(response, 404, "not found\n");
    sendMetrics(response);
  };
  return {
    listen: (port) => listen(createServer(inside), "127.0.0.1", port, signal),
    listenOutside: async ({ address, port, tokenFile }) => {
      const outside: RequestListener = (request, response) => {
        if (pathOf(request.url) !== "/metrics") return send(response, 404, "not found\n");
        isAllowed(request.headers.authorization, tokenFile).then(
          (isTold) => (isTold ? sendMetrics(response) : refuse(response)),
          () => send(response, 503, "the file of metricsTokenFile cannot be read, or is empty\n"),
        );
      };
      const server = createServer({ requestTimeout: OUTSIDE_MS, headersTimeout: OUTSIDE_MS }, outside);
      server.maxConnections = OUTSIDE_CONNECTIONS;
      await listen(server, address, port, signal);
    },
  };
}

/** Strangers may knock there. */
const OUTSIDE_MS = 10_000;
const OUTSIDE_CONNECTIONS = 32;

function pathOf(url: string | undefined): string | undefined {
  return url?.split("?")[0];
}

function sendReadiness(response: ServerResponse, troubles: ReturnType<ServerOptions["troubles"]>): void {
  const body = troubles.map(({ code, message }) => `${code}: ${message}\n`).join("");
  send(response, troubles.length === 0 ? 200 : 503, body || "ok\n");
}

function refuse(response: ServerResponse): void {
  response.setHeader("www-authenticate", "Bearer");
  send(response, 401, "send the token of metricsTokenFile: Authorization: Bearer …\n");
}

function send(
  response: ServerResponse,
  status: number,
  body: string,
  type = "text/plain; charset=utf-8",
): void {
  response.writeHead(status, { "content-type": type }).end(body);
}

async function listen(server: Server, address: string, port: number, signal: AbortSignal): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, address, () => {
      server.off("error", reject);
      resolve();
    });
  });
  server.unref();
  const end = (): void => {
    server.closeAllConnections();
    server.close();
  };
  if (signal.aborted) end();
  else signal.addEventListener("abort", end, { once: true });
  const bound = server.address();
  return typeof bound === "object" && bound !== null ? bound.port : port;
}
