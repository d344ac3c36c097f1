/** Runs the work of the leader: watches, queues and reconcilers. One signal stops all of them. */
import { isBeingDeleted } from "../../src/api/metadata.ts";
import { keyOf } from "../../src/api/names.ts";
import type { Fitness } from "../../src/capacity/fitness.ts";
import type { ScoreWeights } from "../../src/capacity/score.ts";
import type { RecordEvent } from "../../src/kube/event/events.ts";
import type { Queue } from "../../src/kube/queue.ts";
import type { KubeClient, Reflector } from "../../src/kube/types.ts";
import type { WatchedReflector } from "../../src/kube/watch/catch-up.ts";
import { applyServiceSteps } from "../frame/apply/apply.ts";
import { createRejectionRetries } from "../frame/apply/retries.ts";
import type { ControllerMetrics } from "../frame/metrics/metrics.ts";
import { createMoveTracker } from "../frame/move-tracker.ts";
import type { OptionPart } from "../frame/option.ts";
import { observeService } from "../frame/owned/observe.ts";
import type { ControllerPorts } from "../frame/ports.ts";
import { type ControllerScheduler, createControllerScheduler } from "../frame/scheduler/scheduler.ts";
import { backendBlocked, backendOf } from "../frame/service/backend.ts";
import type { IdleServices } from "../frame/service/idle-report.ts";
import { choosePath, type LiveService, modelKeyOf } from "../frame/service/path.ts";
import type { WatchOptions } from "../frame/watches/contract.ts";
import { allWatches, startWatches, type Watches, whenWatchesSynced } from "../frame/watches/watches.ts";
import { createDeletions } from "../hosts/host/deletions.ts";
import { createDrainBlockers, type DrainBlockers } from "../hosts/host/drain-blockers.ts";
import { createFleetLiveness, type FleetLiveness } from "../hosts/host/fleet.ts";
import { type HostPorts, reconcileHost } from "../hosts/host/reconcile.ts";
import { leaseMarkOf } from "../hosts/host/sign.ts";
import { createLeaseSigns, type LeaseSigns } from "../hosts/host/signs.ts";
import { startJoins } from "../hosts/join/joins.ts";
import { createServiceMemory, type ServiceMemory } from "../hosts/memory.ts";
import type { HostsPathPorts } from "../hosts/ports.ts";
import { type SecretAccess, startSecretAccess } from "../hosts/secrets/secret-access.ts";
import { type Downloads, startDownloads } from "../models/cache/watches.ts";
import type { ModelPassPorts, ReconcileModel } from "../models/reconcile.ts";
import { createNodeProbes, type NodeProbesOptions } from "../pods/node-probes.ts";
import { createOffloadReader } from "../pods/offload.ts";
import type { PodsPorts } from "../pods/ports.ts";
import { createPodsQueue, type PodsQueue } from "../pods/queue.ts";
import type { PodsSettings } from "../pods/workload/contract.ts";
import { createFlavors } from "../services/flavors/choose.ts";
import { createForeignServices } from "../services/foreign-services.ts";
import { createNamespaceReader } from "../services/model-names.ts";
import type { RuleLabels } from "../services/objectives/config.ts";
import { type LivePerformance, startLivePerformance } from "../services/performance/live-performance.ts";
import { createPodLoadTimes } from "../services/performance/pod-load-times.ts";
import type { ServicePorts } from "../services/ports.ts";
import { reconcileService } from "../services/reconcile.ts";
import type { RouteSettings } from "../services/routes/config.ts";
import { writeStatus } from "../services/status.ts";
import { type ChangePorts, createHandlers, processInitialLists } from "./changes.ts";
import { leaderFacts } from "./leader-facts.ts";
import { type JoinedOptions, joinOptions } from "./options.ts";
import {
  type CorePasses,
  createQueues,
  enqueueAll,
  enqueueScaled,
  type Queues,
  startQueues,
} from "./queues.ts";
import { createPaths } from "./service-paths.ts";

export interface LeadOptions extends WatchOptions {
  /** Takes what passes over services would write. Absent: they write it. */
  readonly dryRun?: DryRun;
  readonly client: KubeClient;
  readonly metrics: ControllerMetrics;
  readonly record: RecordEvent;
  readonly podsSettings: PodsSettings;
  /** True if nothing runs in pods. */
  readonly hostsOnly: boolean;
  readonly scoreWeights: ScoreWeights;
  /** Undefined: machines are not scored. */
  readonly fitness: Fitness | undefined;
  readonly createModelPass: (ports: ModelPassPorts) => ReconcileModel;
  readonly probing: NodeProbesOptions["probing"];
  readonly routes: RouteSettings;
  readonly ruleLabels: RuleLabels;
  /** What options add to the leader's work. */
  readonly options: readonly Pick<OptionPart, "queue" | "lead">[];
  /** Called when watches have started. More may follow. */
  readonly onWatching: (watches: () => readonly WatchedReflector[]) => void;
  /** Called when every cache is complete and the queues run. */
  readonly onWorking: () => void;
}

export interface DryRun extends Pick<ServicePorts, "apply" | "writeStatus"> {
  /** Called after the pass over each service, `namespace/name`, with its failure. */
  readonly onPassed: (key: string, failure: unknown) => void;
}

/** Passes once over every service, and over the leftovers of deleted ones. */
export async function passOnce(dryRun: DryRun, options: LeadOptions): Promise<void> {
  const leader = await assemble({ ...options, dryRun }, createQueues(options));
  if (leader === undefined) return;
  const { services, ofService } = leader.watches;
  const left = Object.values(ofService).flatMap((grouping) => [...grouping.groups()]);
  const keys = new Set([...services.list().map(({ metadata }) => keyOf(metadata)), ...left]);
  for (const key of [...keys].sort()) {
    if (options.signal.aborted) return;
    const failure = await leader.passes.services(key, options.signal).then(
      () => undefined,
      (error) => error,
    );
    dryRun.onPassed(key, failure);
  }
}

/** Runs until `signal` is aborted. */
export async function lead(options: LeadOptions): Promise<void> {
  const { signal, metrics, clock } = options;
  const queues = createQueues(options);
  const leader = await assemble(options, queues);
  if (leader === undefined) return;
  const { watches, parts, passes } = leader;
  const joins = startJoins({ ...options, watches });
  options.onWatching(() => [...leader.reflectors(), joins]);
  const podLoadTimes = createPodLoadTimes();
  podLoadTimes.read(watches.pods.list(), () => undefined);
  metrics.watch(() => leaderFacts(watches, { ...queues }, { ...parts, podLoadTimes }, clock));
  startQueues(queues, passes, metrics);
  parts.added.autoscaling.onChange(() => enqueueScaled(watches, queues));
  parts.added.onWorking();
  options.onWorking();
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  metrics.watch(undefined);
}

export interface Leader extends Pick<ControllerPorts, "watches" | "moving"> {
  readonly parts: LeaderParts;
  readonly passes: CorePasses;
  /** For a caller that detects that the API server is available again. */
  readonly reflectors: () => readonly WatchedReflector[];
}

/** Starts the watches, and joins the parts once every list is complete, with all keys enqueued. Undefined if the signal was aborted first. */
export async function assemble(options: LeadOptions, queues: Queues): Promise<Leader | undefined> {
  const { clock, signal, metrics } = options;
  const signs = createLeaseSigns(clock);
  const { watches, subscribe } = startWatches(options, {
    isRenewal: (host, lease, isEarly) => signs.note(host, leaseMarkOf(lease), isEarly),
    onInterrupted: signs.resetTimeouts,
  });
  const downloads = startDownloads({ ...options, onModel: queues.models.enqueue });
  const moving = createMoveTracker(metrics.countMove);
  const apply: ControllerPorts["apply"] = (steps) => applyServiceSteps(options, steps);
  const ports: ControllerPorts = { apply, ...options, ...options.dryRun, watches, moving };
  const scheduler = createControllerScheduler(options.scoreWeights);
  const { services, models } = queues;
  const { countMove } = metrics;
  const added = joinOptions(
    options.options,
    { ...options, ...ports, scheduler, countMove, services, models },
    queues,
  );
  const ofJobs = [...downloads.watches, ...added.watches];
  options.onWatching(() => [...allWatches(watches), ...ofJobs]);
  if (!(await areListed(watches, ofJobs, signal))) return undefined;
  // Lease timeouts start now, because listed Leases may be of any age.
  signs.resetTimeouts();
  const fleet = createFleetLiveness(watches, signs, clock);
  const secretAccess = await startSecretAccess({ ...options, watches, onChange: queues.secrets.enqueue });
  const onChange = queues.services.enqueueAfter;
  const { idle } = added;
  const performance = startLivePerformance({ ...options, watches, onChange, onUse: idle.noteUse });
  const parts: LeaderParts = {
    queues,
    scheduler,
    memory: createServiceMemory(),
    podsQueue: createPodsQueue(),
    drainBlockers: createDrainBlockers(),
    fleet,
    signs,
    secretAccess,
    downloads,
    performance,
    idle,
    added,
  };
  const paths = createPaths(hostsPortsOf(ports, parts), podsPortsOf(options, ports, parts));
  const { minimumStayMs, transport } = added;
  const flavors = createFlavors({
    ...ports,
    scheduler,
    settings: options.podsSettings,
    minimumStayMs,
    transport,
  });
  const changes: ChangePorts = { ...parts, watches, clock, fitness: options.fitness, flavors };
  processInitialLists(changes);
  subscribe(added.handlersAfter(createHandlers(changes)));
  prepareAll(paths, watches, { flavors, idle, performance });
  enqueueAll(watches, queues);
  for (const key of secretAccess.keys()) queues.secrets.enqueue(key);
  added.enqueueAll();
  return {
    watches,
    moving: ports.moving,
    parts,
    passes: passesOf(options, ports, parts, { paths, flavors }),
    reflectors: () => [...allWatches(watches), ...ofJobs, ...secretAccess.watches()],
  };
}

/** Parts that passes share in addition to the ports of every reconciler. */
interface LeaderParts {
  readonly queues: Queues;
  readonly scheduler: ControllerScheduler;
  readonly memory: ServiceMemory;
  readonly podsQueue: PodsQueue;
  readonly drainBlockers: DrainBlockers;
  readonly fleet: FleetLiveness;
  readonly signs: LeaseSigns;
  readonly secretAccess: SecretAccess;
  readonly downloads: Downloads;
  readonly performance: LivePerformance;
  readonly idle: IdleServices;
  readonly added: JoinedOptions;
}

function hostsPortsOf(
  ports: ControllerPorts,
  { queues, scheduler, memory, drainBlockers, idle, added: { transport } }: LeaderParts,
): HostsPathPorts {
  return {
    ...ports,
    scheduler,
    idle,
    memory,
    transport,
    drainBlockers,
    onDrainBlockers: enqueueAllIn(queues.hosts),
    onQueueChanged: () => queues.placement.enqueue("all"),
    onDecided: enqueueAllIn(queues.services),
  };
}

function podsPortsOf(
  options: LeadOptions,
  ports: ControllerPorts,
  { queues, podsQueue }: LeaderParts,
): PodsPorts {
  return {
    ...ports,
    settings: options.podsSettings,
    podsQueue,
    nodeProbes: createNodeProbes({ ...options, watches: ports.watches }),
    offloads: createOffloadReader({ ...options, onRead: queues.services.enqueue }),
    onPositions: enqueueAllIn(queues.services),
  };
}

function passesOf(
  options: LeadOptions,
  ports: ControllerPorts,
  parts: LeaderParts,
  own: Pick<ServicePorts, "paths" | "flavors">,
): CorePasses {
  const { queues, scheduler, drainBlockers, fleet, signs, secretAccess, downloads } = parts;
  const { performance, idle, added } = parts;
  const foreign = createForeignServices({ ...options, onFree: queues.services.enqueue });
  const retries = createRejectionRetries();
  const lastStatus: ServicePorts["lastStatus"] = new Map();
  const servicePorts: ServicePorts = {
    ...ports,
    ...own,
    foreign,
    namespaces: createNamespaceReader(ports),
    retries,
    performance,
    idle,
    autoscaling: added.autoscaling.settings,
    transport: added.transport,
    routes: options.routes,
    ruleLabels: options.ruleLabels,
    lastStatus,
    writeStatus: (service, status) => writeStatus({ ...ports, lastStatus }, service, status),
    ...options.dryRun,
  };
  const deletions = createDeletions(ports.clock);
  const hostPorts: HostPorts = { ...ports, fleet, signs, deletions, drainBlockers };
  return {
    ...added.passes,
    services: (key) => reconcileService(servicePorts, key),
    hosts: (name) => reconcileHost(hostPorts, name),
    models: options.createModelPass({ ...ports, downloads, benchmarkOf: added.benchmarkOf }),
    secrets: secretAccess.reconcile,
    fleet: async () => {
      const { changed, recheckAfterMs } = fleet.judge();
      enqueueAllIn(queues.hosts)(changed);
      return { recheckAfterMs };
    },
    placement: async () => {
      const { changed, recheckAfterMs } = scheduler.plan(ports.clock.monotonicMs());
      enqueueAllIn(queues.services)(changed);
      return { recheckAfterMs };
    },
  };
}

function enqueueAllIn(queue: Queue<string>): (keys: readonly string[]) => void {
  return (keys) => {
    for (const key of keys) queue.enqueue(key);
  };
}

/** Returns false if the signal was aborted first. */
async function areListed(
  watches: Watches,
  ofJobs: readonly Pick<Reflector<never>, "whenSynced">[],
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await Promise.all([whenWatchesSynced(watches), ...ofJobs.map(({ whenSynced }) => whenSynced())]);
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}

/** Queues every demand before the first one is placed. */
function prepareAll(
  paths: ServicePorts["paths"],
  watches: Watches,
  { flavors, idle, performance }: Pick<ServicePorts, "flavors" | "idle" | "performance">,
): void {
  const decide = (live: LiveService) => idle.decide(live, performance.update(live).use).live;
  const all = [...liveServices(watches)].map((live) => flavors.last(decide(live)));
  for (const live of all) choosePath(paths, live, watches.models.get(modelKeyOf(live.service))).prepare(live);
}

function* liveServices(watches: Watches): Iterable<LiveService> {
  for (const service of watches.services.list()) {
    const key = keyOf(service.metadata);
    if (isBeingDeleted(service)) continue;
    const backend = backendOf(watches, service);
    const blocked = backendBlocked(watches, service);
    yield { key, service, own: observeService(watches, key).own, backend, blocked };
  }
}
