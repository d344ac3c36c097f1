/** The server: wires connection, watches, density state, the API and its metrics. */
import { once } from "node:events";
import type { Server } from "node:tls";
import type { CatalogRecord } from "../fitness/catalog/record.ts";
import { createDensity, type Density } from "../fitness/density/density.ts";
import { createFitIndex } from "../fitness/density/fits.ts";
import { precomputeFits } from "../fitness/density/precompute.ts";
import { healthRoutes, listen } from "../src/http/listener.ts";
import { isLoopback } from "../src/http/loopback.ts";
import { processFacts } from "../src/http/metrics/process.ts";
import { renderFamilies } from "../src/http/metrics/render.ts";
import { metricsRoute } from "../src/http/metrics/route.ts";
import { createTally } from "../src/http/metrics/tally.ts";
import { connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { createSelfReviews } from "../src/kube/review/self-reviews.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { momentOf } from "../src/util/moment.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { watchCluster } from "./cluster/cluster.ts";
import { createReach } from "./cluster/reach.ts";
import { readConsoleFiles, type ServerConfig } from "./config.ts";
import { createCatalog } from "./console/catalog.ts";
import { type Console, type ConsoleOptions, createConsole } from "./console/console.ts";
import { mountKeys } from "./console/keys/keys.ts";
import { createLive, type LiveOptions } from "./console/live/live.ts";
import type { ReadQueues } from "./console/live/queues.ts";
import { createLogs, type LogsOptions } from "./console/logs/logs.ts";
import { trustAuthority } from "./console/oidc.ts";
import type { MountRoutes } from "./console/reader.ts";
import { mountUndo } from "./console/undo.ts";
import { createExtenderApp, type ExtenderAppOptions } from "./extender/app.ts";
import { createExtenderCluster } from "./extender/facts.ts";
import { createExtenderCounters, extenderMetrics } from "./extender/metrics.ts";
import { readRequestQueues } from "./gateway-queues.ts";
import { listenApp } from "./http/app.ts";
import { followTls, readTls, type TlsFiles } from "./http/tls-files.ts";
import { watchedContext } from "./mcp/context.ts";
import type { HandleRequest } from "./mcp/http.ts";
import type { McpOptions } from "./mcp/server.ts";
import { type ServerFacts, serverMetrics } from "./metrics.ts";
import { createApp } from "./rest/app.ts";
import { createRestAuthorizer } from "./rest/authorize.ts";

export interface ServerOptions {
  readonly config: ServerConfig;
  /** Models to score. */
  readonly records: readonly CatalogRecord[];
  readonly version: string;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  /** Needed unless the settings switch the console off. */
  readonly console?: Pick<ConsoleOptions, "folder" | "codes" | "namespace"> &
    Pick<LogsOptions, "readLocalLog">;
  /** Called with the ports once they listen. */
  readonly onListening?: (ports: ServerPorts) => void;
}

interface ServerPorts {
  readonly api: number;
  readonly health: number;
  /** Undefined unless the settings have the extender's port. */
  readonly extender: number | undefined;
}

const USER_AGENT = "metalbridge-server";
/** A call with a new token needs two reviews. */
const MAX_REQUESTS = 32;

/** Resolves after `signal` was aborted. Rejects if it cannot start: kubeconfig, certificate, ports. */
export async function runServer({
  config,
  records,
  version,
  log,
  signal,
  clock = systemClock,
  console: pages,
  onListening,
}: ServerOptions) {
  const apiRequests = createTally();
  const connection = await connect({
    kubeconfigPath: config.kubeconfig,
    context: config.context,
    userAgent: USER_AGENT,
    onResponse: (verb, status) => apiRequests.add({ verb, code: String(status) }),
    maxRequests: MAX_REQUESTS,
  });
  const density = createDensity(createFitIndex(records), config.scoreWeights);
  const ending = new AbortController();
  const stopped = AbortSignal.any([signal, ending.signal]);
  try {
    const reach = createReach(clock);
    const namespace = pages?.namespace;
    const own = namespace === undefined ? undefined : { namespace, review: createSelfReviews(clock) };
    const withSlices = config.extenderPort !== undefined;
    const options = { connection, clock, log, signal: stopped, reach, own, withSlices };
    const cluster = watchCluster(options, density);
    const { watches, listen, waitingFor } = cluster;
    const extender = { cluster: createExtenderCluster(cluster), counters: createExtenderCounters() };
    const readQueues = queueReader(connection, config);
    const live = { reads: watches, listen, reach, density, readQueues, clock, log, signal: stopped };
    const page =
      pages && config.console
        ? await openConsole(config, {
            ...pages,
            version,
            clock,
            log,
            routes: pageRoutes(config, live, pages),
          })
        : undefined;
    const areScored = precomputeFits(density, () => waitingFor() === undefined, stopped);
    const notReady = () => waitingFor() ?? (areScored() ? undefined : "the first scores");
    const authorize = createRestAuthorizer({
      client: createClient(connection, { userAgent: USER_AGENT }),
      clock,
    });
    const mcp = answerMcp({ context: watchedContext(density, watches, clock), version, log });
    const files = tlsFilesOf(config.tlsCert, config.tlsKey);
    const tls = files && (await readTls(files));
    const app = createApp({ density, clock, log, authorize, notReady, mcp, tls, console: page });
    if (files !== undefined) followTls(app.server as unknown as Server, files, { log, signal: stopped });
    const facts = () => ({ ...factsOf(density, clock, apiRequests), areScored: areScored() });
    const families = serverMetrics(config.metricsPrefix);
    const metrics = () =>
      renderFamilies(families, facts()) +
      (withSlices ? renderFamilies(extenderMetrics, extender.counters) : "");
    const health = await openHealth(config, { notReady, metrics, clock, signal: stopped });
    const schedulers = await openExtender(config, { ...extender, clock, log }, stopped);
    try {
      const api = await listenApp(app, config);
      const ports = { api, health, extender: schedulers?.port };
      log.info({ server: connection.server, models: records.length, ...ports }, "server started");
      onListening?.(ports);
      if (!signal.aborted) await once(signal, "abort");
    } finally {
      await Promise.all([app.close(), schedulers?.app.close()]);
      page?.close();
    }
  } finally {
    ending.abort();
    connection.close();
  }
}

function pageRoutes(
  { gatewayNamespace, gatewayKeysNamespace: namespace = gatewayNamespace, consoleReadOnly }: ServerConfig,
  live: LiveOptions,
  { readLocalLog }: NonNullable<ServerOptions["console"]>,
): MountRoutes[] {
  const { density, clock } = live;
  return [
    createLive(live),
    createCatalog(density, clock),
    createLogs({ clock, readLocalLog }),
    mountKeys({ namespace, isReadOnly: consoleReadOnly, clock }),
    mountUndo(consoleReadOnly),
  ];
}

async function openConsole(
  config: ServerConfig,
  options: Pick<ConsoleOptions, "folder" | "codes" | "namespace" | "version" | "clock" | "log" | "routes">,
): Promise<Console> {
  const { kubeconfig: kubeconfigPath, context, address, gatewayUrl, gatewayPublicUrl } = config;
  const { sessionSecret, clientSecret, authority, gatewayAuthority } = await readConsoleFiles(config);
  if (authority !== undefined) trustAuthority(authority);
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcScopes: scopes } = config;
  return createConsole({
    ...options,
    cluster: { kubeconfigPath, context },
    isReadOnly: config.consoleReadOnly,
    isOnLoopback: address === "localhost" || isLoopback(address),
    sessionSecret,
    oidc:
      issuer === undefined || clientId === undefined ? undefined : { issuer, clientId, clientSecret, scopes },
    gateway:
      gatewayUrl === undefined
        ? undefined
        : {
            url: gatewayUrl,
            authority: gatewayAuthority,
            publicUrl: gatewayPublicUrl ?? gatewayUrl,
            takesKubernetesTokens: config.gatewayKubernetesTokens,
          },
  });
}

function queueReader(
  connection: KubeConnection,
  { gatewayHealthUrl, gatewayNamespace: namespace }: ServerConfig,
): ReadQueues {
  const urls = gatewayHealthUrl.map((url) => new URL(url));
  return (signal) => readRequestQueues(connection, { urls, namespace }, signal);
}

/** Loads MCP with the first request: most servers never get one, and it takes megabytes. */
function answerMcp(options: McpOptions): HandleRequest {
  return async (...exchange) => {
    const [{ handleStateless }, { createMcp }] = await Promise.all([
      import("./mcp/http.ts"),
      import("./mcp/server.ts"),
    ]);
    await handleStateless(() => createMcp(options), ...exchange);
  };
}

function openHealth(
  { healthAddress: address, healthPort: port }: ServerConfig,
  ports: Pick<ServerOptions, "signal"> & {
    readonly clock: Clock;
    readonly notReady: () => string | undefined;
    readonly metrics: () => string;
  },
): Promise<number> {
  const { notReady, metrics, clock, signal } = ports;
  const routes = healthRoutes({
    notReady: () => [notReady()].flatMap((one) => (one === undefined ? [] : [`waiting for ${one}`])),
    metrics: metricsRoute(metrics, clock),
  });
  return listen({ address, port, routes, signal });
}

async function openExtender(
  { address, extenderPort: port, extenderTlsCert, extenderTlsKey, scoreWeights: weights }: ServerConfig,
  options: Omit<ExtenderAppOptions, "weights" | "tls">,
  signal: AbortSignal,
) {
  if (port === undefined) return undefined;
  const files = tlsFilesOf(extenderTlsCert, extenderTlsKey);
  const app = createExtenderApp({ ...options, weights, tls: files && (await readTls(files)) });
  if (files !== undefined) followTls(app.server as unknown as Server, files, { log: options.log, signal });
  return { app, port: await listenApp(app, { address, port }) };
}

function tlsFilesOf(cert: string | undefined, key: string | undefined): TlsFiles | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

function factsOf(
  density: Density,
  clock: Clock,
  apiRequests: ServerFacts["apiRequests"],
): Omit<ServerFacts, "areScored"> {
  return {
    density,
    apiRequests,
    now: momentOf(clock),
    process: processFacts(clock),
  };
}
