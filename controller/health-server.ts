/** /healthz, /readyz and /metrics on a local port. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { ControllerMetrics } from "./metrics.ts";

export interface HealthOptions {
  readonly address: string;
  readonly port: number;
  readonly metrics: Pick<ControllerMetrics, "contentType" | "text">;
  /** Undefined when ready; else what is waited for. */
  readonly notReady: () => string | undefined;
  readonly signal: AbortSignal;
}

/** Listens until `signal` is aborted; resolves with the port. */
export async function startHealthServer(options: HealthOptions): Promise<number> {
  const server = createServer((request, response) => {
    const { status, type, body } = answer(options, request.url ?? "/");
    void Promise.resolve(body).then((text) => response.writeHead(status, { "content-type": type }).end(text));
  });
  await listen(server, options);
  options.signal.addEventListener("abort", () => close(server), { once: true });
  return (server.address() as AddressInfo).port;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string | Promise<string>;
}

function answer({ metrics, notReady }: HealthOptions, url: string): Answer {
  const type = "text/plain; charset=utf-8";
  switch (url.split("?")[0]) {
    case "/healthz":
      return { status: 200, type, body: "ok\n" };
    case "/readyz": {
      const waitingFor = notReady();
      return waitingFor === undefined
        ? { status: 200, type, body: "ok\n" }
        : { status: 503, type, body: `waiting for ${waitingFor}\n` };
    }
    case "/metrics":
      return { status: 200, type: metrics.contentType, body: metrics.text() };
    default:
      return { status: 404, type, body: "not found\n" };
  }
}

function listen(server: Server, { address, port }: HealthOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, address, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function close(server: Server): void {
  server.close();
  server.closeAllConnections();
}
