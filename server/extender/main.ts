/** The scheduler extender: wires connection, watches, the listener for schedulers, and health. */
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { limitConnections } from "../../src/http/connections.ts";
import { healthRoutes, listen, listenOn } from "../../src/http/listener.ts";
import { processFacts } from "../../src/http/metrics/process-facts.ts";
import { renderFamilies } from "../../src/http/metrics/render.ts";
import { metricsRoute } from "../../src/http/metrics/route.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Log } from "../../src/util/ports.ts";
import { followTls, readTls } from "../tls-files.ts";
import { createApp } from "./app.ts";
import { watchCluster } from "./cluster.ts";
import type { ExtenderConfig } from "./config.ts";
import { createExtenderCounters, extenderMetrics } from "./metrics.ts";

export interface ExtenderOptions {
  readonly config: ExtenderConfig;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const USER_AGENT = "metalbridge-scheduler-extender";
/** A scheduler needs few connections; all schedulers of a cluster may share one address. */
const CONNECTIONS = { total: 128, perAddress: 64 };
const REQUEST_MS = 10_000;

/** Resolves after `signal` was aborted. Rejects if it cannot start: kubeconfig, certificate, ports. */
export async function runExtender({ config, log, signal }: ExtenderOptions): Promise<void> {
  const clock = systemClock;
  const counters = createExtenderCounters();
  const connection = await connect({
    kubeconfigPath: config.kubeconfig,
    context: config.context,
    userAgent: USER_AGENT,
    onAnswer: (verb, status) => counters.apiRequests.add({ verb, code: String(status) }),
  });
  const ending = new AbortController();
  const stopped = AbortSignal.any([signal, ending.signal]);
  try {
    const cluster = watchCluster({ connection, clock, log, signal: stopped });
    const app = createApp({ cluster, weights: config.scoreWeights, counters, clock, log });
    const { tlsCert: cert, tlsKey: key } = config;
    const files = cert === undefined || key === undefined ? undefined : { cert, key };
    const limits = { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS };
    const server =
      files === undefined
        ? createHttpServer(limits, app)
        : createHttpsServer({ ...limits, ...(await readTls(files, "ExtenderConfigInvalid")) }, app);
    limitConnections(server, CONNECTIONS);
    if (files !== undefined && "setSecureContext" in server)
      followTls(server, files, { log, signal: stopped });
    const routes = healthRoutes({
      notReady: () => cluster.waitingFor().map((kind) => `waiting for the first list of ${kind}`),
      metrics: metricsRoute(
        () => renderFamilies(extenderMetrics, { ...counters, process: processFacts(clock) }),
        clock,
      ),
    });
    const { healthAddress, healthPort, address, port } = config;
    const health = await listen({ address: healthAddress, port: healthPort, routes, signal: stopped });
    const bound = await listenOn(server, { address, port, signal: ending.signal });
    log.info({ server: connection.server, port: bound, health }, "scheduler extender started");
    if (!signal.aborted) await once(signal, "abort");
    // Requests in flight are answered; each takes at most its budget.
    server.closeIdleConnections();
    await new Promise((resolve) => server.close(resolve));
  } finally {
    ending.abort();
    connection.close();
  }
}
