/** The queues of the leader, one for each kind that is reconciled. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { keyOf } from "../../src/api/names.ts";
import {
  createIdleQueue,
  type IdleQueue,
  type IdleQueueOptions,
  type Queue,
  type Recheck,
} from "../../src/kube/queue.ts";
import type { ControllerMetrics } from "../frame/metrics/metrics.ts";
import type { OptionPart } from "../frame/option.ts";
import type { Watches } from "../frame/watches/watches.ts";

interface CoreQueues {
  readonly services: Queue<string>;
  readonly hosts: Queue<string>;
  readonly fleet: Queue<string>;
  readonly models: Queue<string>;
  /** Keys `namespace/host`, for permissions to read Secrets. */
  readonly secrets: Queue<string>;
  /** Collapses many changes that matter for placement into one pass. */
  readonly placement: Queue<string>;
}

/** Those of options have their names. */
export type Queues = CoreQueues & Readonly<Record<string, Queue<string>>>;

const MODELS_PER_NAMESPACE = 8;
/** Half of the concurrency. Without pods, a pass waits only for the API server. */
const SERVICES_PER_NAMESPACE = 16;

type IdleQueues = { readonly [Name in keyof CoreQueues]: IdleQueue<string> } & Readonly<
  Record<string, IdleQueue<string>>
>;

/** The pass over one key, by the name of the queue. */
export type Passes = Readonly<
  Record<string, (key: string, signal: AbortSignal) => Promise<Recheck | undefined>>
>;
export type CorePasses = Passes & { readonly [Name in keyof CoreQueues]: Passes[string] };

/** The queues run once `startQueues` has set their passes. */
export function createQueues({
  clock,
  log,
  signal,
  options,
}: Pick<IdleQueueOptions<string>, "clock" | "log" | "signal"> & {
  readonly options: readonly Pick<OptionPart, "queue">[];
}): IdleQueues {
  const create = (queue: string, more: Pick<IdleQueueOptions<string>, "groups"> = {}) =>
    createIdleQueue<string>({ ...more, clock, log: log.child({ queue }), signal });
  const ofOptions = options.flatMap(({ queue }) => (queue === undefined ? [] : [[queue, create(queue)]]));
  return {
    hosts: create("hosts"),
    // A pass may wait for slow pods or a slow source, so one namespace must not delay the others.
    services: create("services", byNamespace(SERVICES_PER_NAMESPACE)),
    models: create("models", byNamespace(MODELS_PER_NAMESPACE)),
    secrets: create("secrets"),
    fleet: create("fleet"),
    placement: create("placement"),
    ...Object.fromEntries(ofOptions),
  };
}

export function startQueues(
  queues: IdleQueues,
  passes: Passes,
  metrics: Pick<ControllerMetrics, "pass">,
): void {
  for (const [name, queue] of Object.entries(queues))
    queue.start((key, stop) => metrics.pass(name, async () => passes[name]?.(key, stop)));
}

function byNamespace(limit: number): Pick<IdleQueueOptions<string>, "groups"> {
  return { groups: { of: (key) => key.slice(0, key.indexOf("/")), limit } };
}

/** Enqueues the keys of all objects, including those of deleted services and Hosts. Services that no leader has seen come first. */
export function enqueueAll(watches: Watches, queues: Queues): void {
  const { services, hosts, fleet, models } = queues;
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

/** Services whose autoscaler depends on what the installation offers to autoscalers. */
export function enqueueScaled(watches: Watches, { services }: Queues): void {
  for (const { metadata, spec } of watches.services.list())
    if (spec.autoscaling !== undefined) services.enqueue(keyOf(metadata));
}
