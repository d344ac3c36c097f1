/** The gateway: wires watches, keys, limits, queues, the decision service and Envoy. */
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import path from "node:path";
import { REQUEST_QUEUES_PATH } from "../src/gateway/request-queues.ts";
import { healthRoutes, listen } from "../src/http/listener.ts";
import { processFacts } from "../src/http/metrics/process-facts.ts";
import { renderFamilies } from "../src/http/metrics/render.ts";
import { costlyRoute, metricsRoute } from "../src/http/metrics/route.ts";
import { createTally, type Tally } from "../src/http/metrics/tally.ts";
import { connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { createIdentityReader } from "../src/supervise/identity/identity.ts";
import { createSupervisor } from "../src/supervise/supervisor.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { repeat } from "../src/util/repeat.ts";
import { openAccounting, openSharedCounters } from "./accounting.ts";
import { watchGateways, watchModels } from "./cluster.ts";
import { type GatewayConfig, readUserJwtSecret } from "./config.ts";
import { Decider } from "./decide/decide.ts";
import { createEngineKeys } from "./decide/engine-keys.ts";
import { personOf } from "./decide/people.ts";
import { serveDecisions } from "./decide/server.ts";
import { createDemand } from "./demand/demand.ts";
import { type Edge, type EdgePorts, openEdge } from "./edge.ts";
import { createEnds } from "./ended.ts";
import type { EnvoyOptions } from "./envoy/types.ts";
import { createFolderWait, type FolderWait } from "./folder-wait.ts";
import { createAuthenticator } from "./keys/authenticator.ts";
import { createUsers } from "./keys/users.ts";
import { watchKeys } from "./keys/watch-keys.ts";
import type { SharedCounters } from "./limits/shared-counters.ts";
import { createFigures, gatewayFamilies } from "./metrics.ts";
import { Models } from "./models/models.ts";
import { Queues } from "./queue/queues.ts";
import { reportQueues } from "./queue/report.ts";
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
    onAnswer: (verb, status) => apiRequests.add({ verb, code: String(status) }),
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
    // It rejects at the end, and is not awaited if a port is taken.
    gateway.synced.catch(() => {});
    const health = await listenForHealth(gateway, ports, apiRequests);
    await Promise.race([gateway.synced, aborted(signal)]);
    if (signal.aborted) return;
    const edge = await startEdge(gateway, ports);
    if (edge === undefined) return;
    onListening?.({ url: edge.url(), health });
    log.info({ server: connection.server, url: edge.url(), health }, "gateway started");
    tick(gateway, ports);
    await aborted(signal);
    await Promise.race([edge.stop(), aborted(hurry).then(() => edge.stop({ drainMs: 0 }))]);
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

/** The parts without Envoy. Watches start at once. */
function createGateway(ports: Ports) {
  const { config, connection, clock, folder } = ports;
  const client = createClient(connection, { userAgent: USER_AGENT });
  const queues = new Queues(clock);
  let edge: Edge | undefined;
  /** A replica gets requests once Envoy knows it, and none as soon as its slice is withdrawn. */
  const updateQueue = (key: string): void => {
    const model = models.get(key);
    const endpoints = model?.endpoints.filter(({ address }) => edge?.isServed(key, address));
    queues.update(key, model && { ...model, endpoints: endpoints ?? [] }, gateways());
  };
  const models = new Models((key) => {
    updateQueue(key);
    edge?.update();
  });
  const others =
    config.service === undefined
      ? undefined
      : watchGateways({
          ...ports,
          namespace: config.namespace,
          service: config.service,
          onChange: () => {
            for (const { key } of models.list()) updateQueue(key);
          },
        });
  const gateways = (): number => others?.count() ?? 1;
  const { services, slices } = watchModels(ports, models);
  const { keys, reflector: secrets } = watchKeys({
    ...ports,
    namespace: config.keysNamespace ?? config.namespace,
    onChange: () => void edge?.relisten(),
  });
  const reflectors = [services, slices, secrets, ...(others === undefined ? [] : [others.slices])];
  const accounting = openAccounting({ ...ports, client, gateway: hostname(), gateways });
  const isKeyRequired = (): boolean => config.kubernetesTokens || keys.size() > 0;
  const authenticator = createAuthenticator({
    keys,
    isSynced: secrets.isSynced,
    nowMs: clock.nowMs,
    identifyUser: config.kubernetesTokens
      ? createUsers({ client, clock, limits: config.userLimits ?? {} })
      : undefined,
    isOpenWithoutKeys: () => !config.kubernetesTokens && edge?.isLocal() === true,
    corsOrigins: config.corsOrigins,
  });
  return {
    client,
    models,
    queues,
    keys,
    accounting,
    authenticator,
    isKeyRequired,
    demand: createDemand({ ...ports, client, gateway: hostname() }),
    figures: createFigures(),
    synced: Promise.all(reflectors.map((one) => one.whenSynced())),
    notReady: () =>
      reflectors.every((one) => one.isSynced()) ? folder.waitsFor() : "the first list of the cluster",
    updateQueue,
    get edge() {
      return edge;
    },
    set edge(opened: Edge | undefined) {
      edge = opened;
      // The cluster may have changed since Envoy got its first configuration.
      edge?.update();
      for (const { key } of models.list()) updateQueue(key);
    },
  };
}

/**
 * The decision service, then Envoy: it must not accept requests before they can be decided. Waits while the disk is full.
 * Resolves to undefined if the gateway stops meanwhile.
 */
async function startEdge(gateway: Gateway, ports: Ports): Promise<Edge | undefined> {
  const { models, queues, accounting, figures, isKeyRequired } = gateway;
  const { limits, bodies, onUsage, readFrom, readUpTo } = accounting;
  const { config, supervisor, folder, clock, log } = ports;
  const decideSocket = path.join(config.dir, "decide.sock");
  const opening = Promise.withResolvers<void>();
  const count = createEnds({ queues, limits, bodies, figures, onUsage, clock, log });
  const onLines: EdgePorts["onLines"] = (lines, position) => {
    count(lines);
    readUpTo(position);
  };
  let isServing = false;
  const edge = await folder.until(async (signal) => {
    await mkdir(config.dir, { recursive: true, mode: 0o700 });
    // It runs on while Envoy cannot be started, and says why to clients of an earlier Envoy.
    if (!isServing) await openDecisions(gateway, ports, decideSocket, opening.promise);
    isServing = true;
    return openEdge({
      ...{ config, decideSocket, supervisor, readFrom, onLines, clock, log, signal },
      models: () => models.list(),
      mayListenPublicly: isKeyRequired,
      onAccepted: gateway.updateQueue,
      onExited: () => endAll(gateway, clock),
    });
  });
  if (edge === undefined) return undefined;
  gateway.edge = edge;
  opening.resolve();
  return edge;
}

function openDecisions(
  gateway: Gateway,
  { config, folder, clock, log, signal, jwtSecret }: Ports,
  socket: string,
  opened: Promise<void>,
): Promise<void> {
  const { models, queues, accounting, authenticator, figures } = gateway;
  const decider = new Decider({
    models,
    queues,
    authenticator: () => authenticator,
    limits: accounting.limits,
    bodies: accounting.bodies,
    engineKey: createEngineKeys(gateway.client, clock),
    personOf: (headers) =>
      jwtSecret === undefined ? undefined : personOf(headers, jwtSecret, clock.nowMs()),
    upstreamTls: {
      hasTrust: config.upstreamCa !== undefined,
      hasCertificate: config.upstreamCert !== undefined,
    },
    onDemand: gateway.demand.note,
    clock,
    random: Math.random,
  });
  return serveDecisions({
    socket,
    decider,
    listing: { models, authenticate: authenticator.authenticate },
    // Clients do not learn the path of the folder.
    notReady: () => (folder.waitsFor() === undefined ? gateway.notReady() : "its disk"),
    opened,
    onDecision: (decision) => {
      if (decision.at === "refused") figures.refusals.add({ code: decision.refusal.code });
    },
    log,
    signal,
  });
}

async function listenForHealth(
  gateway: Gateway,
  { config, clock, signal }: Ports,
  apiRequests: Tally,
): Promise<number> {
  const { figures, queues, models, keys, accounting } = gateway;
  const facts = () => ({
    ...{ figures, queues, models, apiRequests },
    ...accounting.facts(),
    keys: { valid: keys.size() - keys.problems().size, invalid: keys.problems().size },
    isEnvoyRunning: gateway.edge?.isRunning() ?? false,
    process: processFacts(clock),
  });
  const notReady = (): string[] => {
    const missing = gateway.notReady() ?? (gateway.edge?.isRunning() === true ? undefined : "Envoy");
    return missing === undefined ? [] : [`waiting for ${missing}`];
  };
  const metrics = metricsRoute(() => renderFamilies(gatewayFamilies, facts()), clock);
  const waiting = costlyRoute(() => JSON.stringify(reportQueues(queues)), clock, "application/json");
  const routes = { ...healthRoutes({ notReady, metrics }), [REQUEST_QUEUES_PATH]: waiting };
  return listen({ address: config.healthAddress, port: config.healthPort, routes, signal });
}

/** Work from time to time: demand of long requests, lost requests, a large access log. */
function tick(gateway: Gateway, ports: Ports): void {
  const { queues, models, demand, edge } = gateway;
  const { log } = ports;
  repeat(ports, TICK_MS, async () => {
    endLost(gateway, queues.releaseLost(), ports.clock);
    await releaseEnded(gateway, ports);
    for (const [key, { inFlight, waiting }] of queues.list()) {
      const model = models.get(key);
      if (model !== undefined && inFlight + waiting > 0) demand.note(model);
    }
    await edge?.rotate().catch((err: unknown) => log.warn({ err }, "cannot rotate the access log of Envoy"));
  });
}

const NO_TOKENS = { tokensIn: 0, tokensOut: 0, cached: 0, isEstimated: false };

/** Requests whose slots are free, and which no line of the access log ends. */
function endLost({ accounting }: Gateway, ids: readonly string[], clock: Clock): void {
  for (const id of ids) {
    accounting.limits.ended(id, NO_TOKENS, clock.nowMs());
    accounting.bodies.release(id);
  }
}

/** Their Envoy has exited. */
function endAll(gateway: Gateway, clock: Clock): void {
  endLost(gateway, gateway.queues.releaseAll(), clock);
  gateway.accounting.bodies.releaseAll();
}

/** Envoy drops lines of the access log while the disk is full. */
async function releaseEnded(gateway: Gateway, { clock, log }: Ports): Promise<void> {
  const { queues, edge } = gateway;
  if (!queues.hasOld()) return;
  const active = await edge?.activeRequests();
  if (active === undefined) return;
  const released = queues.releaseBeyond(active);
  endLost(gateway, released, clock);
  if (released.length > 0)
    log.warn(
      { requests: released.length },
      "requests ended without a line in the access log; their slots are free",
    );
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}
