/** The work of the leader: watches, queues, reconcilers. One signal stops all of it. */

import { keyOf } from "../../src/api/names.ts";
import type { Fitness } from "../../src/capacity/fitness.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import type { RecordEvent } from "../../src/kube/event/events.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { WatchedReflector } from "../../src/kube/watch/catch-up.ts";
import { createDeletions } from "../host/deletions.ts";
import { createDrainBlockers } from "../host/drain-blockers.ts";
import { createFleetLiveness } from "../host/fleet.ts";
import { createLeaseSigns } from "../host/signs.ts";
import { startJoins } from "../join/joins.ts";
import { createMoveTracker } from "../live-eviction/move-tracker.ts";
import { type MoverOptions, startLiveEviction } from "../live-eviction/mover.ts";
import { leaderFacts } from "../metrics/leader.ts";
import { startDownloads } from "../model/cache/watches.ts";
import { createControllerScheduler } from "../scheduler/scheduler.ts";
import { startSecretAccess } from "../secrets/secret-access.ts";
import { createRejectionRetries } from "../service/apply/retries.ts";
import { createForeignServices } from "../service/foreign-services.ts";
import { createServiceMemory } from "../service/hosts/memory.ts";
import { observeService } from "../service/owned/observe.ts";
import { choosePath, type LiveService, modelKeyOf } from "../service/path.ts";
import { createNodeProbes, type NodeProbesOptions } from "../service/pods/node-probes.ts";
import { createOffloadReader } from "../service/pods/offload.ts";
import { createPodsQueue } from "../service/pods/queue.ts";
import type { ServicePorts } from "../service/ports.ts";
import type { ControllerPorts } from "../watches/ports.ts";
import { allWatches, startWatches, type Watches, whenWatchesSynced } from "../watches/watches.ts";
import type { PodsSettings } from "../workload/contract.ts";
import { createHandlers, type LeaderState, processInitialLists } from "./changes.ts";
import { type ControllerQueueOptions, createQueues, enqueueAll } from "./queues.ts";
import { createPaths, type PathPorts } from "./service-paths.ts";

export interface LeadOptions extends ControllerQueueOptions {
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  readonly record: RecordEvent;
  readonly linux: PodsSettings;
  /** Nothing runs in pods. */
  readonly hostsOnly: boolean;
  /** Undefined: machines are not scored. */
  readonly fitness: Fitness | undefined;
  readonly probing: NodeProbesOptions["probing"];
  /** Undefined where it is off. */
  readonly liveEviction: MoverOptions["liveEviction"];
  /** These watches have started; more may follow. */
  readonly onWatching: (watches: () => readonly WatchedReflector[]) => void;
  /** Every cache is complete and the queues run. */
  readonly onWorking: () => void;
}

/** Runs until `signal` is aborted. */
export async function lead(options: LeadOptions): Promise<void> {
  const { clock, signal, metrics } = options;
  const signs = createLeaseSigns(clock);
  const state: LeaderState = {};
  const watches = startWatches(options, createHandlers(state, signs));
  const downloads = startDownloads({
    ...options,
    onModel: (key) => state.working?.queues.models.enqueue(key),
  });
  options.onWatching(() => [...allWatches(watches), ...downloads.watches]);
  if (!(await areListed(watches, downloads.watches, signal))) return;
  // Lease timeouts start here: listed Leases may be of any age.
  signs.countAfresh();
  const scheduler = createControllerScheduler();
  const fleet = createFleetLiveness(watches, signs, clock);
  const moving = createMoveTracker(metrics.countMove);
  const ports: ControllerPorts = { ...options, watches, moving };
  const memory = createServiceMemory();
  const enqueueServices = (keys: readonly string[]) => {
    for (const key of keys) state.working?.queues.services.enqueue(key);
  };
  const podsQueue = createPodsQueue();
  const pathPorts: PathPorts = {
    ...ports,
    ...{ linux: options.linux, podsQueue },
    nodeProbes: createNodeProbes({ ...options, watches }),
    offloads: createOffloadReader({ ...options, onRead: (key) => enqueueServices([key]) }),
    onPositions: enqueueServices,
    scheduler,
    memory,
    stays: createDrainBlockers(),
    onStaysChanged: (hosts) => {
      for (const host of hosts) state.working?.queues.hosts.enqueue(host);
    },
    onQueueChanged: () => state.working?.queues.placement.enqueue("all"),
    onDecided: enqueueServices,
  };
  const paths = createPaths(pathPorts);
  const foreign = createForeignServices({ ...options, onFree: (key) => enqueueServices([key]) });
  const retries = createRejectionRetries();
  const servicePorts: ServicePorts = { ...ports, foreign, paths, retries, lastStatus: new Map() };
  const secretAccess = await startSecretAccess({
    ...options,
    watches,
    onChange: (key) => state.working?.queues.secrets.enqueue(key),
  });
  const own = [...downloads.watches, startJoins({ ...options, watches })];
  options.onWatching(() => [...allWatches(watches), ...own, ...secretAccess.watches()]);
  const queues = createQueues(options, {
    ...pathPorts,
    ...servicePorts,
    fleet,
    signs,
    deletions: createDeletions(clock),
    secretAccess,
    downloads,
  });
  state.working = { queues, scheduler, watches, memory, clock, fitness: options.fitness };
  processInitialLists(state.working);
  metrics.watch(() => leaderFacts(watches, { ...queues }, { scheduler, podsQueue }, clock));
  prepareAll(paths, watches);
  enqueueAll(watches, queues);
  for (const key of secretAccess.keys()) queues.secrets.enqueue(key);
  startLiveEviction({ ...options, watches, moving, onMoving: enqueueServices });
  options.onWorking();
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  metrics.watch(undefined);
}

/** False where the signal came first. */
async function areListed(
  watches: Watches,
  ofDownloads: ReturnType<typeof startDownloads>["watches"],
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await Promise.all([whenWatchesSynced(watches), ...ofDownloads.map(({ whenSynced }) => whenSynced())]);
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}

/** Every demand must be queued before the first is placed. */
function prepareAll(paths: ServicePorts["paths"], watches: Watches): void {
  for (const live of liveServices(watches))
    choosePath(paths, live, watches.models.get(modelKeyOf(live.service))).prepare(live);
}

function* liveServices(watches: Watches): Iterable<LiveService> {
  for (const service of watches.services.list()) {
    const { namespace, name, deletionTimestamp } = service.metadata;
    const key = keyOf({ namespace, name });
    if (deletionTimestamp === undefined) yield { key, service, own: observeService(watches, key).own };
  }
}
