/** The agent's server: health and metrics on loopback, and metrics on the configured address for clients with the token. */
import {
  healthRoutes,
  type ListenOptions,
  type ListenRetryOptions,
  listen,
  retryListen,
} from "../../src/http/listener.ts";
import { METRICS_TYPE } from "../../src/http/metrics/render.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { MetricsSource } from "./families/scrape.ts";
import { createMetrics } from "./metrics.ts";

export interface AgentServerOptions extends MetricsSource {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** 0 takes a free one. */
  readonly port: number;
  readonly outside: ExternalListener | undefined;
  /** The problems that keep the agent from being ready; empty if it is ready. */
  readonly problems: () => readonly { readonly code: string; readonly message: string }[];
}

export interface ExternalListener {
  readonly address: string;
  readonly port: number;
  readonly tokenFile: string;
}

/** Resolves with the loopback port; rejects with `PortTaken` if another program uses it. */
export async function startServer(options: AgentServerOptions): Promise<number> {
  const { log, port, outside, problems, signal } = options;
  const scrape = createMetrics(options);
  const metrics = async () => ({ status: 200, body: await scrape(), type: METRICS_TYPE });
  const notReady = () => problems().map(({ code, message }) => `${code}: ${message}`);
  const routes = healthRoutes({ notReady, metrics });
  const bound = await listen({ address: "127.0.0.1", port, routes, signal });
  log.info({ port: bound }, "listening on loopback for /healthz, /readyz and /metrics");
  if (outside !== undefined)
    listenWithRetry(
      { ...outside, routes: { "/metrics": metrics }, signal },
      { ...options, what: "/metrics, with the token" },
    );
  return bound;
}

/** Retries {@link listen} until it succeeds. */
export function listenWithRetry(options: ListenOptions, retry: ListenRetryOptions): void {
  retryListen(() => listen(options), options, retry);
}
