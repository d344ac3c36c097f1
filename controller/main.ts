/** Wires the controller: the connection, the leader election and the leader's work. */

import type { CatalogRecord } from "../fitness/catalog/record.ts";
import { MANAGER_CONTROLLER, NAMESPACE_SYSTEM } from "../src/api/group.ts";
import type { Fitness } from "../src/capacity/fitness.ts";
import { healthRoutes, listen } from "../src/http/listener.ts";
import { metricsRoute } from "../src/http/metrics/route.ts";
import type { RouteHandler, Routes } from "../src/http/routes.ts";
import { proxyVariables, reportProxies } from "../src/hub/proxy.ts";
import { type ConnectOptions, connect } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { createEventRecorder } from "../src/kube/event/events.ts";
import { type LeaderElectionOptions, runLeaderElection } from "../src/kube/lease/leader.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import type { KubeClient } from "../src/kube/types.ts";
import { createCatchUp, type WatchedReflector } from "../src/kube/watch/catch-up.ts";
import { startReflector } from "../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { type ControllerConfig, defaultIdentity } from "./config.ts";
import { type ControllerMetrics, createControllerMetrics } from "./frame/metrics/metrics.ts";
import { ensureNamespaces } from "./frame/namespaces.ts";
import type { OptionPart } from "./frame/option.ts";
import { type DryRun, type LeadOptions, lead, passOnce } from "./lead/lead.ts";
import { createModelPass } from "./models/reconcile.ts";
import { type OptionName, startOptions } from "./options/registry.ts";
import { podsSettingsOf, probingOf } from "./pods/config.ts";
import { ruleLabelsOf } from "./services/objectives/config.ts";
import { routeSettingsOf } from "./services/routes/config.ts";

export interface ControllerOptions {
  readonly config: ControllerConfig;
  /** Models of the catalog, for which nodes are scored. */
  readonly records?: readonly CatalogRecord[];
  readonly log: Log;
  /** Stops everything in order and releases the Lease. */
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  /** Identity in the leader election. Absent: host name and process ID. */
  readonly identity?: string;
  /** Times of the leader election. */
  readonly lease?: Pick<LeaderElectionOptions, "durationSeconds" | "renewDeadlineMs" | "retryMs">;
  /** Absent: Models are inspected according to `config`. */
  readonly createModelPass?: LeadOptions["createModelPass"];
  /** Called with the port of /healthz once it listens. */
  readonly onListening?: (port: number) => void;
  /** Called whenever this process leads and every cache is complete. */
  readonly onWorking?: () => void;
  /** Called with the port of an option's listener once it listens. */
  readonly onOptionListening?: (option: OptionName, port: number) => void;
}

const USER_AGENT = "metalbridge-controller";
/** Equal to the concurrency of one queue. With fewer, slow responses of 200 ms would delay the passes when hosts are lost. */
const MAX_REQUESTS = 32;

/** Resolves after `signal` was aborted and the Lease is released. Rejects if the kubeconfig or the port cannot be used. */
export async function runController(options: ControllerOptions): Promise<void> {
  const { config, log, signal, clock = systemClock } = options;
  const identity = options.identity ?? defaultIdentity();
  const metrics = createControllerMetrics(clock, config.flexinferMetricNames);
  const target = targetOf(config, metrics);
  const connection = await connect({ ...target, maxRequests: MAX_REQUESTS });
  // The connection outlives the signal, because the Lease is released afterwards.
  const client = createClient(connection, { userAgent: USER_AGENT });
  const fitness = config.fitness ? await loadFitness(options.records) : undefined;
  const { hostsOnly, scoreWeights } = config;
  const common = { connection, clock, log, fitness, hostsOnly };
  let state: ControllerState = { at: "connecting", watches: none };
  const reflectors = () => state.watches();
  const catchUp = createCatchUp({ clock, signal, reflectors, replaced: connection.replaced });
  const end = new AbortController();
  try {
    const running = { ...common, signal: AbortSignal.any([signal, end.signal]) };
    // Before probes are served, so that this pod is not Ready while services are stored unchecked.
    const settings = { ...config, proxyVariables: proxyVariables() };
    const parts = await startOptions(
      settings,
      { ...running, connectApart: (maxRequests) => connectApart({ ...target, maxRequests }, running.signal) },
      options.onOptionListening,
    );
    const routes = routesOf(() => state, parts, metricsRoute(metrics.text, clock));
    const port = await listen({ ...healthOf(config), routes, signal });
    options.onListening?.(port);
    log.info({ server: connection.server, identity, healthPort: port }, "controller started");
    await ensureNamespaces({ client, clock, log, signal });
    state = { at: "standby", watches: none };
    await runLeaderElection({
      ...electionOf(options, client, identity),
      clock,
      onResponse: catchUp.answered,
      onLead: (leading, mayWrite) => {
        metrics.setLeading(true);
        state = { at: "listing", watches: none };
        const writer = createClient(connection, { userAgent: USER_AGENT, mayWrite });
        const shared = { ...common, scoreWeights, client: writer, metrics, signal: leading };
        for (const { onLead } of parts) onLead?.(shared);
        return lead({
          ...shared,
          ...partsOf({ ...options, signal: leading }, client, identity),
          options: parts,
          onWatching: (watches) => {
            state = { at: "listing", watches };
          },
          onWorking: () => {
            state = { ...state, at: "working" };
            log.info({}, "working");
            options.onWorking?.();
          },
        });
      },
      onLost: () => {
        metrics.setLeading(false);
        state = { at: "standby", watches: none };
      },
    });
    await Promise.all(parts.map(({ ended }) => ended));
  } finally {
    end.abort();
    connection.close();
  }
}

function healthOf({ healthAddress: address, healthPort: port }: ControllerConfig) {
  return { address, port };
}

/**
 * Observes the cluster once, and passes over each service. `dryRun` gets what the passes would write: neither they nor the
 * controller write anything, and no Lease is taken.
 */
export async function dryRunController(
  { signal: aborted, ...options }: ControllerOptions,
  dryRun: DryRun,
): Promise<void> {
  const { config, log, clock = systemClock } = options;
  const { hostsOnly, scoreWeights } = config;
  const metrics = createControllerMetrics(clock, config.flexinferMetricNames);
  const target = targetOf(config, metrics);
  const connection = await connect({ ...target, maxRequests: MAX_REQUESTS });
  const end = new AbortController();
  const signal = AbortSignal.any([aborted, end.signal]);
  try {
    const client = createClient(connection, { userAgent: USER_AGENT, mayWrite: () => false });
    const fitness = config.fitness ? await loadFitness(options.records) : undefined;
    const shared = { connection, clock, log, signal, fitness, hostsOnly };
    const settings = { ...config, proxyVariables: proxyVariables() };
    const parts = await startOptions(settings, {
      ...shared,
      isDryRun: true,
      connectApart: (maxRequests) => connectApart({ ...target, maxRequests }, signal),
    });
    await passOnce(dryRun, {
      ...shared,
      ...partsOf({ ...options, signal }, client, defaultIdentity()),
      client,
      metrics,
      scoreWeights,
      record: () => undefined,
      probing: undefined,
      options: parts,
      onWatching: () => undefined,
      onWorking: () => undefined,
    });
  } finally {
    end.abort();
    connection.close();
  }
}

function electionOf({ log, signal, lease }: ControllerOptions, client: KubeClient, identity: string) {
  const named = { name: MANAGER_CONTROLLER, namespace: NAMESPACE_SYSTEM, identity };
  return { client, log, signal, ...named, ...lease };
}

/** Loads the fitness scores, which all other code uses through the `Fitness` interface. */
async function loadFitness(records: readonly CatalogRecord[] = []): Promise<Fitness> {
  const { createFitness } = await import("../fitness/fitness.ts");
  return createFitness(records);
}

function targetOf({ kubeconfig, context }: ControllerConfig, metrics: ControllerMetrics): ConnectOptions {
  return { kubeconfigPath: kubeconfig, context, userAgent: USER_AGENT, onResponse: metrics.countAnswer };
}

async function connectApart(target: ConnectOptions, signal: AbortSignal): Promise<KubeClient> {
  const connection = await connect(target);
  signal.addEventListener("abort", () => connection.close(), { once: true });
  return createClient(connection, { userAgent: USER_AGENT });
}

/** Conditions that /readyz reports as pending, by state. */
const WAITING_FOR = {
  connecting: "the API server",
  standby: "leadership",
  listing: "the first lists (are the CRDs installed?)",
  working: undefined,
};

interface ControllerState {
  readonly at: keyof typeof WAITING_FOR;
  /** Watches that catch up after an outage. */
  readonly watches: () => readonly WatchedReflector[];
}

const none = () => [];

function routesOf(state: () => ControllerState, parts: readonly OptionPart[], metrics: RouteHandler): Routes {
  const notReady = () => {
    const waitingFor = WAITING_FOR[state().at];
    const own = waitingFor === undefined ? [] : [`waiting for ${waitingFor}`];
    return [...own, ...parts.flatMap((part) => part.notReady?.() ?? [])];
  };
  return Object.assign(healthRoutes({ notReady, metrics }), ...parts.map(({ routes }) => routes));
}

/** Parts of the leader's work that depend on the options. */
function partsOf(
  { config: given, log, signal, clock = systemClock, ...options }: ControllerOptions,
  client: KubeClient,
  identity: string,
) {
  const config = { ...given, proxyVariables: proxyVariables() };
  reportProxies(log);
  return {
    startReflector,
    record: createEventRecorder({
      client,
      clock,
      log,
      signal,
      reportingController: `metalbridge.dev/${MANAGER_CONTROLLER}`,
      reportingInstance: identity,
    }),
    podsSettings: podsSettingsOf(config),
    probing: probingOf(config),
    routes: routeSettingsOf(config),
    ruleLabels: ruleLabelsOf(config),
    createModelPass: options.createModelPass ?? createModelPass(config),
  };
}
