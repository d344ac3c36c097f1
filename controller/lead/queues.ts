/** One queue for each kind that is reconciled. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { keyOf } from "../../src/api/names.ts";
import {
  createQueue,
  type Queue,
  type QueueOptions as QueueSettings,
  type Recheck,
} from "../../src/kube/queue.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { type HostPorts, reconcileHost } from "../host/reconcile.ts";
import type { ControllerMetrics } from "../metrics.ts";
import type { ModelPassPorts } from "../model/reconcile.ts";
import type { SecretAccess } from "../secrets/secret-access.ts";
import type { ServicePorts } from "../service/ports.ts";
import { reconcileService } from "../service/reconcile.ts";
import type { Watches } from "../watches/watches.ts";
import type { PathPorts } from "./service-paths.ts";

/** A pass over one Model; reads its header from the source. */
export type ModelPass = (key: string, signal: AbortSignal) => Promise<Recheck | undefined>;

export interface ControllerQueueOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: ControllerMetrics;
  readonly signal: AbortSignal;
  readonly createModelPass: (ports: ModelPassPorts) => ModelPass;
}

export interface Queues {
  readonly services: Queue<string>;
  readonly hosts: Queue<string>;
  readonly fleet: Queue<"all">;
  readonly models: Queue<string>;
  /** By `namespace/host`: rights to Secrets. */
  readonly secrets: Queue<string>;
  /** Collapses many changes that matter for placement into one pass. */
  readonly placement: Queue<"all">;
}

const MODELS_PER_NAMESPACE = 8;
/** Half of the places: without pods, a pass waits for the API server alone. */
const SERVICES_PER_NAMESPACE = 16;

export function createQueues(
  options: ControllerQueueOptions,
  ports: ServicePorts &
    HostPorts &
    ModelPassPorts &
    Pick<PathPorts, "scheduler" | "onDecided"> & { readonly secretAccess: SecretAccess },
): Queues {
  const { clock, log, signal, metrics } = options;
  const { fleet } = ports;
  const counted = (
    queue: string,
    pass: (key: string, stop: AbortSignal) => Promise<Recheck | undefined>,
    more: Pick<QueueSettings<string>, "groups"> = {},
  ) =>
    createQueue<string>({
      ...more,
      clock,
      log: log.child({ queue }),
      signal,
      reconcile: (key, stop) => metrics.pass(queue, () => pass(key, stop)),
    });
  const hosts = counted("hosts", (name) => reconcileHost(ports, name));
  return {
    hosts,
    // A pass may wait for slow pods or a slow source: those of one namespace must not hold up the others.
    services: counted("services", (key) => reconcileService(ports, key), byNamespace(SERVICES_PER_NAMESPACE)),
    models: counted("models", options.createModelPass(ports), byNamespace(MODELS_PER_NAMESPACE)),
    secrets: counted("secrets", ports.secretAccess.reconcile),
    fleet: counted("fleet", async () => {
      const { changed, recheckAfterMs } = fleet.judge();
      for (const host of changed) hosts.enqueue(host);
      return { recheckAfterMs };
    }),
    placement: counted("placement", async () => {
      const { changed, recheckAfterMs } = ports.scheduler.plan(clock.monotonicMs());
      ports.onDecided(changed);
      return { recheckAfterMs };
    }),
  };
}

function byNamespace(limit: number): Pick<QueueSettings<string>, "groups"> {
  return { groups: { of: (key) => key.slice(0, key.indexOf("/")), limit } };
}

/** Enqueues every key that any object exists for, also leftovers of a deleted service or Host. What no leader has acted on goes first. */
export function enqueueAll(watches: Watches, { services, hosts, fleet, models }: Queues): void {
  const isNew = ({ metadata, status }: InferenceService) =>
    status?.observedGeneration !== metadata.generation;
  const all = watches.services.list();
  const leftovers = Object.values(watches.ofService).flatMap((grouping) => grouping.groups());
  for (const { metadata } of watches.models.list()) models.enqueue(keyOf(metadata));
  for (const { metadata } of [...all.filter(isNew), ...all]) services.enqueue(keyOf(metadata));
  for (const key of leftovers) services.enqueue(key);
  for (const { metadata } of watches.hosts.list()) hosts.enqueue(metadata.name);
  for (const host of [...watches.replicasOfHost.groups(), ...watches.slicesOfHost.groups()])
    hosts.enqueue(host);
  // Leases also cover deleted hosts.
  for (const { metadata } of watches.leases.list()) hosts.enqueue(metadata.name);
  fleet.enqueue("all");
}
