/** The gateway: constructs the watches, keys, limits, queues, the decision service and Envoy, in this order. */
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import path from "node:path";
import { REQUEST_QUEUES_PATH } from "../src/gateway/request-queues.ts";
import { healthRoutes, listen } from "../src/http/listener.ts";
import { processFacts } from "../src/http/metrics/process.ts";
import { renderFamilies } from "../src/http/metrics/render.ts";
import { costlyRoute, metricsRoute } from "../src/http/metrics/route.ts";
import { createTally, type Tally } from "../src/http/metrics/tally.ts";
import { connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import type { EndpointSlice } from "../src/kube/objects.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import type { Reflector } from "../src/kube/types.ts";
import { createIdentityReader } from "../src/supervise/identity/identity.ts";
import { createSupervisor } from "../src/supervise/supervisor.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { repeat } from "../src/util/repeat.ts";
import { openAccounting, openSharedCounters } from "./accounting.ts";
import { watchGateways, watchKeys, watchModels } from "./cluster.ts";
import { type GatewayConfig, readUserJwtSecret } from "./config.ts";
import { Decider } from "./decide/decide.ts";
import { createEngineKeys } from "./decide/engine-keys.ts";
import { serveDecisions } from "./decide/server.ts";
import { createDemandReporter } from "./demand.ts";
import type { EnvoyOptions } from "./envoy/types.ts";
import { createEnvoyProxy } from "./envoy-proxy.ts";
import { countRefusal, createFinishedRequests } from "./finished-requests.ts";
import { createFolderWait, type FolderWait } from "./folder-wait.ts";
import { userOf } from "./keys/authentication.ts";
import { createAuthenticator } from "./keys/authenticator.ts";
import { createKeyIndex } from "./keys/key-index.ts";
import { createUsers } from "./keys/users.ts";
import type { SharedCounters } from "./limits/shared-counters.ts";
import { createRequestMetrics, gatewayFamilies } from "./metrics.ts";
import { Models } from "./models/models.ts";
import { watchTransport } from "./models/sealed.ts";
import { ModelQueues, reportQueues } from "./queue/queues.ts";
import { Requests } from "./requests.ts";
import { type CheckpointFile, openCheckpoint } from "./usage/checkpoint.ts";

export interface GatewayOptions {
  readonly config: GatewayConfig;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Ends the wait for requests in flight. */
  readonly hurry: AbortSignal;
  readonly clock?: Clock;
  /** Called with the base URL and the port of /healthz once requests are accepted. */
  readonly onListening?: (at: { readonly url: string; readonly health: number }) => void;
}

const USER_AGENT = "metalbridge-gateway";
const MAX_REQUESTS = 32;
const TICK_MS = 10_000;
const CHECKPOINT = "access-log-position.json";

/** Resolves after `signal` was aborted and requests in flight have finished. Rejects if it cannot start: kubeconfig, Envoy, ports. */
export async function runGateway({
  config,
  log,
  signal,
  hurry,
  clock = systemClock,
  onListening,
}: GatewayOptions): Promise<void> {
  const apiRequests = createTally();
  const connection = await connect({
    kubeconfigPath: config.kubeconfig,
    context: config.context,
    userAgent: USER_AGENT,
    onResponse: (verb, status) => apiRequests.add({ verb, code: String(status) }),
    maxRequests: MAX_REQUESTS,
  });
  const ending = new AbortController();
  try {
    const jwtSecret = await readUserJwtSecret(config);
    const shared = await openSharedCounters({ config, clock, log, signal: ending.signal });
    const checkpoint = await openCheckpoint(path.join(config.dir, CHECKPOINT), log);
    const lifetime = { clock, log, signal: ending.signal };
    const folder = createFolderWait({ ...lifetime, folder: config.dir, stopping: signal });
    const supervisor = createSupervisor({ clock, log, identity: createIdentityReader(process.platform) });
    const common = { config, connection, supervisor, folder, ...lifetime };
    const ports = { ...common, jwtSecret, shared, checkpoint };
    const gateway = createGateway(ports);
    const { envoy } = gateway;
    // It rejects at the end, and is not awaited if a port is taken.
    gateway.synced.catch(() => {});
    const health = await listenForHealth(gateway, ports, apiRequests);
    await Promise.race([gateway.synced, aborted(signal)]);
    if (signal.aborted || !(await startServing(gateway, ports))) return;
    onListening?.({ url: envoy.url(), health });
    log.info({ server: connection.server, url: envoy.url(), health }, "gateway started");
    doPeriodicWork(gateway, ports);
    await aborted(signal);
    await Promise.race([envoy.stop(), aborted(hurry).then(() => envoy.stop({ drainMs: 0 }))]);
    await gateway.accounting.close();
  } finally {
    ending.abort();
    connection.close();
  }
}

interface Ports {
  readonly config: GatewayConfig;
  readonly connection: KubeConnection;
  readonly supervisor: EnvoyOptions["supervisor"];
  readonly clock: Clock;
  readonly log: Log;
  /** The lifetime of all parts. */
  readonly signal: AbortSignal;
  readonly folder: FolderWait;
  readonly jwtSecret: string | undefined;
  readonly shared: SharedCounters | undefined;
  readonly checkpoint: CheckpointFile;
}

type Gateway = ReturnType<typeof createGateway>;

/** All parts, each after those that it uses. The watches start at once, the decision service and Envoy with `startServing`. */
function createGateway(ports: Ports) {
  const { config, connection, clock, folder, log, signal } = ports;
  const client = createClient(connection, { userAgent: USER_AGENT });
  const names = { client, gateway: hostname() };
  const models = new Models();
  const keys = createKeyIndex();
  const queues = new ModelQueues(models, clock);
  const metrics = createRequestMetrics();
  const { count: gateways, slices: otherGateways } = watchOthers(ports, queues);
  const accounting = openAccounting({ ...ports, ...names, gateways });
  const { limits, bodies, onUsage, readFrom, readUpTo } = accounting;
  const demand = createDemandReporter({ ...ports, ...names });
  const requests = new Requests({ queues, limits, bodies, onAdmitted: demand.note, clock, signal });
  const finish = createFinishedRequests({
    requests,
    metrics,
    hostOf: (model, address) => models.hostOf(model, address),
    onUsage,
    log,
  });
  const envoy = createEnvoyProxy({
    ...ports,
    decideSocket: decideSocket(config),
    models: () => models.list(),
    mayListenPublicly: () => config.kubernetesTokens || keys.size() > 0,
    onAccepted: (key, addresses) => queues.setAccepted(key, addresses),
    onAnswered: (id, status) => requests.answered(id, status),
    onExited: () => requests.endAll(),
    readFrom,
    onLines: (lines, position) => {
      finish(lines);
      readUpTo(position);
    },
  });
  const onChange = (key: string): void => {
    queues.refresh(key);
    envoy.update();
  };
  const namespace = config.keysNamespace ?? config.namespace;
  const secrets = watchKeys({ ...ports, namespace, keys, onChange: () => void envoy.relisten() });
  const { whenRead } = watchTransport({ ...ports, namespace: config.namespace, onKeyPair: envoy.present });
  const reflectors = [secrets, ...watchModels({ ...ports, models, onChange }), ...otherGateways];
  const { authenticate } = createAuthenticator({
    keys,
    isSynced: secrets.isSynced,
    nowMs: clock.nowMs,
    identifyUser: config.kubernetesTokens
      ? createUsers({ client, clock, limits: config.userLimits ?? {} })
      : undefined,
    isOpenWithoutKeys: () => !config.kubernetesTokens && envoy.isLocal(),
    corsOrigins: config.corsOrigins,
  });
  return {
    client,
    models,
    keys,
    queues,
    metrics,
    accounting,
    demand,
    requests,
    envoy,
    authenticate,
    synced: Promise.all([...reflectors.map((one) => one.whenSynced()), whenRead]),
    notReady: () =>
      reflectors.every((one) => one.isSynced()) ? folder.waitsFor() : "the first list of the cluster",
  };
}

/** Gateways of the same Service share slots and limits. */
function watchOthers(
  ports: Ports,
  queues: ModelQueues,
): { readonly count: () => number; readonly slices: readonly Reflector<EndpointSlice>[] } {
  const { service, namespace } = ports.config;
  if (service === undefined) return { count: () => 1, slices: [] };
  const onChange = (count: number): void => queues.setGateways(count);
  const { count, slices } = watchGateways({ ...ports, namespace, service, onChange });
  return { count, slices: [slices] };
}

function decideSocket({ dir }: GatewayConfig): string {
  return path.join(dir, "decide.sock");
}

/**
 * Starts the decision service, then Envoy, which must not accept requests before they can be decided. Waits while the disk is
 * full. False if the gateway stops meanwhile.
 */
async function startServing(gateway: Gateway, ports: Ports): Promise<boolean> {
  const { config, folder } = ports;
  const isServing = await folder.until(async () => {
    await mkdir(config.dir, { recursive: true, mode: 0o700 });
    await startDecisions(gateway, ports);
    return true;
  });
  if (isServing !== true) return false;
  // While Envoy cannot start, the decision service reports the reason to clients of an adopted Envoy.
  const isOpen = await folder.until(async (signal) => {
    await gateway.envoy.open(signal);
    return true;
  });
  return isOpen === true;
}

function startDecisions(
  { models, queues, requests, accounting, authenticate, metrics, client, envoy, notReady }: Gateway,
  { config, folder, clock, log, signal, jwtSecret }: Ports,
): Promise<void> {
  const decider = new Decider({
    models,
    queues,
    requests,
    authenticate,
    bodies: accounting.bodies,
    engineKey: createEngineKeys(client, clock),
    userOf: (headers) => (jwtSecret === undefined ? undefined : userOf(headers, jwtSecret, clock.nowMs())),
    upstreamTls: {
      hasTrust: config.upstreamCa !== undefined,
      hasCertificate: config.upstreamCert !== undefined,
    },
    hasKeyPair: envoy.hasKeyPair,
    clock,
    random: Math.random,
  });
  return serveDecisions({
    socket: decideSocket(config),
    decider,
    listing: { models, authenticate },
    // Clients do not learn the path of the folder.
    notReady: () => (folder.waitsFor() === undefined ? notReady() : "its disk"),
    whenOpen: envoy.whenOpen,
    onDecision: (decision) => {
      if (decision.at === "refused") countRefusal(metrics, decision.refusal);
    },
    log,
    signal,
  });
}

async function listenForHealth(
  { metrics, queues, models, keys, accounting, envoy, ...gateway }: Gateway,
  { config, clock, signal }: Ports,
  apiRequests: Tally,
): Promise<number> {
  const facts = () => ({
    metrics,
    queues,
    models,
    apiRequests,
    ...accounting.facts(),
    keys: { valid: keys.size() - keys.problems().size, invalid: keys.problems().size },
    isEnvoyRunning: envoy.isRunning(),
    process: processFacts(clock),
  });
  const notReady = (): string[] => {
    const missing = gateway.notReady() ?? (envoy.isRunning() ? undefined : "Envoy");
    return missing === undefined ? [] : [`waiting for ${missing}`];
  };
  const metricsText = metricsRoute(() => renderFamilies(gatewayFamilies, facts()), clock);
  const report = costlyRoute(() => JSON.stringify(reportQueues(queues)), clock, "application/json");
  const routes = { ...healthRoutes({ notReady, metrics: metricsText }), [REQUEST_QUEUES_PATH]: report };
  return listen({ address: config.healthAddress, port: config.healthPort, routes, signal });
}

/** Ends requests whose end was lost, renews the demand of long requests, and rotates the access log. */
function doPeriodicWork({ requests, queues, models, demand, envoy }: Gateway, ports: Ports): void {
  const { log } = ports;
  repeat(ports, TICK_MS, async () => {
    const lost = requests.findLost(requests.hasOld() ? await envoy.activeRequests() : undefined);
    for (const [id, why] of lost) requests.end(id, why);
    if (lost.size > 0)
      log.warn(
        { requests: lost.size },
        "requests ended without a line in the access log; their slots are free",
      );
    for (const [key, { inFlight, waiting }] of queues.list()) {
      const model = models.get(key);
      if (model !== undefined && inFlight + waiting > 0) demand.note(model);
    }
    await envoy.maintain().catch((err: unknown) => log.warn({ err }, "cannot maintain the files of Envoy"));
  });
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}
