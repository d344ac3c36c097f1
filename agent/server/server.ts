/** Loopback HTTP for people and probes: /healthz, /readyz, /metrics. */
import { createServer, type Server, type ServerResponse } from "node:http";
import { createMetrics, type Metrics, type MetricsFacts } from "./metrics.ts";

export interface ServerOptions {
  /** 0 takes a free one. */
  readonly port: number;
  readonly signal: AbortSignal;
  /** What keeps the agent from being ready; empty when it is. */
  readonly troubles: () => readonly { readonly code: string; readonly message: string }[];
  readonly facts: () => MetricsFacts;
}

/** Resolves with the port once it listens. */
export async function startServer(options: ServerOptions): Promise<number> {
  let metrics: Promise<Metrics> | undefined;
  const server = createServer((request, response) => {
    const path = request.url?.split("?")[0];
    if (path === "/healthz") return send(response, 200, "ok\n");
    if (path === "/readyz") return sendReadiness(response, options.troubles());
    if (path !== "/metrics") return send(response, 404, "not found\n");
    metrics ??= createMetrics(options.facts);
    metrics
      .then(async ({ text, contentType }) => send(response, 200, await text(), contentType))
      .catch((error: unknown) => send(response, 500, `${String(error)}\n`));
  });
  await listen(server, options.port);
  server.unref();
  options.signal.addEventListener(
    "abort",
    () => {
      server.closeAllConnections();
      server.close();
    },
    { once: true },
  );
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : options.port;
}

function sendReadiness(response: ServerResponse, troubles: ReturnType<ServerOptions["troubles"]>): void {
  const body = troubles.map(({ code, message }) => `${code}: ${message}\n`).join("");
  send(response, troubles.length === 0 ? 200 : 503, body || "ok\n");
}

function send(
  response: ServerResponse,
  status: number,
  body: string,
  type = "text/plain; charset=utf-8",
): void {
  response.writeHead(status, { "content-type": type }).end(body);
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => {
      server.off("error", reject);
      resolve();
    });
  });
}
