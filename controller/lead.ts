/** The work of the leader: copies, queues, reconcilers. Everything hangs on one signal. */
import { ANNOTATION_LOST } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import type { RecordEvent } from "../src/kube/events.ts";
import { createQueue, type Queue, type Recheck } from "../src/kube/queue.ts";
import type { KubeClient } from "../src/kube/types.ts";
import type { Watched } from "../src/kube/watch/catch-up.ts";
import type { Clock, Log } from "../src/ports.ts";
import {
  type Caches,
  type ChangeHandlers,
  startCaches,
  watchesOf,
  whenCachesSynced,
} from "./cache/caches.ts";
import type { ControllerPorts } from "./cache/ports.ts";
import { createFleet, type Fleet, markOf } from "./host/fleet.ts";
import { reconcileHost } from "./host/reconcile.ts";
import { createLeaseSigns, type LeaseSigns } from "./host/signs.ts";
import { createStays } from "./host/stays.ts";
import { leaderFacts } from "./metrics/leader.ts";
import type { ControllerMetrics } from "./metrics.ts";
import { claimOfReplica, momentOf } from "./placement/claims.ts";
import { createPlacementLedger, type PlacementLedger } from "./placement/ledger.ts";
import { draftNow } from "./service/draft.ts";
import { createForeignServices } from "./service/foreign-services.ts";
import { createServiceMemory, type ServiceMemory } from "./service/memory.ts";
import { seeService } from "./service/observe.ts";
import type { ServicePorts } from "./service/ports.ts";
import { reconcileService } from "./service/reconcile.ts";

export interface LeadOptions {
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly record: RecordEvent;
  readonly metrics: ControllerMetrics;
  readonly signal: AbortSignal;
  readonly createModelPass: (ports: ControllerPorts) => ModelPass;
  /** The watches have begun. */
  readonly onWatching: (watches: readonly Watched[]) => void;
  /** Every copy is complete and the queues run. */
  readonly onWorking: () => void;
}

type ModelPass = (key: string, signal: AbortSignal) => Promise<Recheck | undefined>;

interface Queues {
  readonly services: Queue<string>;
  readonly hosts: Queue<string>;
  readonly fleet: Queue<"all">;
  readonly models: Queue<string>;
  /** What has changed for placement is looked at together, once for many changes. */
  readonly placement: Queue<"all">;
}

/** What handlers reach once everything is there; before that, a first list is on its way and nothing is missed. */
interface Working {
  readonly queues: Queues;
  readonly ledger: PlacementLedger;
  readonly caches: Caches;
  readonly memory: ServiceMemory;
  readonly clock: Clock;
}

/** Runs until `signal` is aborted. */
export async function lead(options: LeadOptions): Promise<void> {
  const { clock, signal, metrics } = options;
  const signs = createLeaseSigns(clock);
  const state: { working?: Working } = {};
  const caches = startCaches(options, createHandlers(state, signs));
  options.onWatching(watchesOf(caches));
  try {
    await whenCachesSynced(caches);
  } catch (error) {
    if (signal.aborted) return;
    throw error;
  }
  // Silence is counted from here: what was listed may be of any age.
  signs.countAfresh();
  const ledger = createPlacementLedger();
  const fleet = createFleet(caches, signs, clock);
  const ports: ControllerPorts = { ...options, caches };
  const memory = createServiceMemory();
  const servicePorts: ServicePorts = {
    ...ports,
    ledger,
    memory,
    stays: createStays(),
    foreign: createForeignServices({
      ...options,
      onFree: (key) => state.working?.queues.services.enqueue(key),
    }),
    onStaysChanged: (hosts) => {
      for (const host of hosts) state.working?.queues.hosts.enqueue(host);
    },
    onQueueChanged: () => state.working?.queues.placement.enqueue("all"),
    onDecided: (services) => {
      for (const key of services) state.working?.queues.services.enqueue(key);
    },
  };
  const queues = createQueues(options, servicePorts, { fleet, signs });
  state.working = { queues, ledger, caches, memory, clock };
  for (const host of caches.hosts.list()) ledger.noteHost(host.metadata.name, host);
  for (const replica of caches.replicas.list()) noteReplica(state.working, keyOf(replica), replica);
  metrics.watch(() => leaderFacts(caches, { ...queues }, ledger, clock));
  // The queue for capacity must be whole before the first is served from it.
  for (const [key, service] of liveServices(caches))
    draftNow(servicePorts, key, service, seeService(caches, key));
  enqueueAll(caches, queues);
  options.onWorking();
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  metrics.watch(undefined);
}

function createQueues(
  options: LeadOptions,
  ports: ServicePorts,
  { fleet, signs }: { readonly fleet: Fleet; readonly signs: LeaseSigns },
): Queues {
  const { clock, log, signal, metrics } = options;
  const counted = (queue: string, pass: (key: string, stop: AbortSignal) => Promise<Recheck | undefined>) =>
    createQueue<string>({
      clock,
      log: log.child({ queue }),
      signal,
      reconcile: (key, stop) => metrics.pass(queue, () => pass(key, stop)),
    });
  const hosts = counted("hosts", (name) => reconcileHost({ ...ports, fleet, signs }, name));
  return {
    hosts,
    services: counted("services", (key) => reconcileService(ports, key)),
    models: counted("models", options.createModelPass(ports)),
    fleet: counted("fleet", async () => {
      const { changed, recheckAfterMs } = fleet.judge();
      for (const host of changed) hosts.enqueue(host);
      return { recheckAfterMs };
    }),
    placement: counted("placement", async () => {
      const { changed, recheckAfterMs } = ports.ledger.plan(clock.monotonicMs());
      ports.onDecided(changed);
      return { recheckAfterMs };
    }),
  };
}

function createHandlers(state: { working?: Working }, signs: LeaseSigns): ChangeHandlers {
  return {
    onService: (key) => state.working?.queues.services.enqueue(key),
    onModel: (namespace, name) => {
      const { queues, caches } = state.working ?? {};
      queues?.models.enqueue(`${namespace}/${name}`);
      for (const { metadata } of caches?.servicesOfModel.of(`${namespace}/${name}`) ?? []) {
        queues?.services.enqueue(`${metadata.namespace}/${metadata.name}`);
      }
    },
    onReplica: (key, replica, before) => {
      const shown = replica ?? before;
      if (shown !== undefined) state.working?.memory.noteSeen(shown, replica === undefined);
      if (state.working !== undefined) noteReplica(state.working, key, replica);
    },
    onHost: (name, host, before) => {
      state.working?.queues.hosts.enqueue(name);
      state.working?.queues.fleet.enqueue("all");
      state.working?.ledger.noteHost(name, host);
      state.working?.queues.placement.enqueue("all");
      if (servingFactsOf(host) !== servingFactsOf(before)) enqueueServicesOn(state, name);
      if (modelsOf(host) !== modelsOf(before)) enqueueModels(state);
    },
    onHostMember: (host) => state.working?.queues.hosts.enqueue(host),
    onLease: (host, lease) => {
      if (lease === undefined) return;
      const hasChanged = signs.note(host, markOf(lease), state.working === undefined);
      if (!hasChanged) return;
      if (!isReachable(state, host)) state.working?.queues.fleet.enqueue("all");
      if (isDeclaredLost(state, host)) state.working?.queues.hosts.enqueue(host);
    },
    onLeaseTrouble: () => signs.countAfresh(),
  };
}

/** A renewal of a host that is known to be well changes nothing, and comes every ten seconds from each. */
function isReachable({ working }: { working?: Working }, host: string): boolean {
  const conditions = working?.caches.hosts.get(host)?.status?.conditions;
  return conditions?.find(({ type }) => type === "Reachable")?.status === "True";
}

/** A renewal is what takes an operator's word back. */
function isDeclaredLost({ working }: { working?: Working }, host: string): boolean {
  return working?.caches.hosts.get(host)?.metadata.annotations?.[ANNOTATION_LOST] !== undefined;
}

function noteReplica(
  { ledger, caches, clock, queues }: Working,
  key: string,
  replica: InferenceReplica | undefined,
): void {
  const service = replica === undefined ? undefined : caches.services.get(serviceKeyOf(replica));
  ledger.noteClaim(key, replica && claimOfReplica(replica, service, momentOf(clock)));
  queues.placement.enqueue("all");
}

function serviceKeyOf({ metadata, spec }: InferenceReplica): string {
  return `${metadata.namespace}/${spec.template.serviceName}`;
}

function keyOf({ metadata }: InferenceReplica): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function enqueueServicesOn({ working }: { working?: Working }, host: string): void {
  for (const { metadata, spec } of working?.caches.replicasOfHost.of(host) ?? []) {
    working?.queues.services.enqueue(`${metadata.namespace}/${spec.template.serviceName}`);
  }
}

/** Models tell which hosts hold them. */
function enqueueModels({ working }: { working?: Working }): void {
  for (const { metadata } of working?.caches.models.list() ?? []) {
    working?.queues.models.enqueue(`${metadata.namespace}/${metadata.name}`);
  }
}

function modelsOf(host: Host | undefined): string {
  return JSON.stringify(host?.status?.models ?? []);
}

/** What of a host decides on the slices of its replicas, and on whether they may stay. */
function servingFactsOf(host: Host | undefined): string {
  return JSON.stringify([host?.spec.addresses, host?.status?.addresses, host?.spec.drain]);
}

function* liveServices(caches: Caches) {
  for (const service of caches.services.list()) {
    const { namespace, name, deletionTimestamp } = service.metadata;
    if (deletionTimestamp === undefined) yield [`${namespace}/${name}`, service] as const;
  }
}

/** Every key that anything exists for: also what a vanished service or Host left behind. */
function enqueueAll(caches: Caches, { services, hosts, fleet, models }: Queues): void {
  const { replicasOfService, slicesOfService, kubeServicesOfService, revisionsOfService } = caches;
  const keys = [replicasOfService, slicesOfService, kubeServicesOfService, revisionsOfService].flatMap(
    (grouping) => grouping.groups(),
  );
  for (const { metadata } of caches.models.list()) models.enqueue(`${metadata.namespace}/${metadata.name}`);
  for (const { metadata } of caches.services.list()) keys.push(`${metadata.namespace}/${metadata.name}`);
  for (const key of keys) services.enqueue(key);
  for (const { metadata } of caches.hosts.list()) hosts.enqueue(metadata.name);
  for (const host of [...caches.replicasOfHost.groups(), ...caches.slicesOfHost.groups()])
    hosts.enqueue(host);
  // Also of hosts that are no more.
  for (const { metadata } of caches.leases.list()) hosts.enqueue(metadata.name);
  fleet.enqueue("all");
}
