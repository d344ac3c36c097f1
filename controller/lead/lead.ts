/** The work of the leader: copies, queues, reconcilers. Everything hangs on one signal. */
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import type { RecordEvent } from "../../src/kube/events.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Watched } from "../../src/kube/watch/catch-up.ts";
import { type Caches, startCaches, watchesOf, whenCachesSynced } from "../cache/caches.ts";
import type { ControllerPorts } from "../cache/ports.ts";
import { createFleet } from "../host/fleet.ts";
import { createLeaseSigns } from "../host/signs.ts";
import { createStays } from "../host/stays.ts";
import { leaderFacts } from "../metrics/leader.ts";
import { createPlacementLedger } from "../placement/ledger.ts";
import { draftNow } from "../service/draft.ts";
import { createForeignServices } from "../service/foreign-services.ts";
import { createServiceMemory } from "../service/memory.ts";
import { seeService } from "../service/observe.ts";
import type { ServicePorts } from "../service/ports.ts";
import { createHandlers, type LeaderState, noteFirstLists } from "./changes.ts";
import { createQueues, enqueueAll, type QueueOptions } from "./queues.ts";

export interface LeadOptions extends QueueOptions {
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  readonly record: RecordEvent;
  /** The watches have begun. */
  readonly onWatching: (watches: readonly Watched[]) => void;
  /** Every copy is complete and the queues run. */
  readonly onWorking: () => void;
}

/** Runs until `signal` is aborted. */
export async function lead(options: LeadOptions): Promise<void> {
  const { clock, signal, metrics } = options;
  const signs = createLeaseSigns(clock);
  const state: LeaderState = {};
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
  noteFirstLists(state.working);
  metrics.watch(() => leaderFacts(caches, { ...queues }, ledger, clock));
  // The queue for capacity must be whole before the first is served from it.
  for (const [key, service] of liveServices(caches))
    draftNow(servicePorts, key, service, seeService(caches, key));
  enqueueAll(caches, queues);
  options.onWorking();
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  metrics.watch(undefined);
}

function* liveServices(caches: Caches) {
  for (const service of caches.services.list()) {
    const { namespace, name, deletionTimestamp } = service.metadata;
    if (deletionTimestamp === undefined) yield [`${namespace}/${name}`, service] as const;
  }
}
