/** One queue for each kind of thing that is reconciled. */
import { createQueue, type Queue, type Recheck } from "../../src/kube/queue.ts";
import type { Clock, Log } from "../../src/ports.ts";
import type { Caches } from "../cache/caches.ts";
import type { ControllerPorts } from "../cache/ports.ts";
import type { Fleet } from "../host/fleet.ts";
import { reconcileHost } from "../host/reconcile.ts";
import type { LeaseSigns } from "../host/signs.ts";
import type { ControllerMetrics } from "../metrics.ts";
import type { ServicePorts } from "../service/ports.ts";
import { reconcileService } from "../service/reconcile.ts";

/** A pass over one Model; reads what its source tells. */
export type ModelPass = (key: string, signal: AbortSignal) => Promise<Recheck | undefined>;

export interface QueueOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: ControllerMetrics;
  readonly signal: AbortSignal;
  readonly createModelPass: (ports: ControllerPorts) => ModelPass;
}

export interface Queues {
  readonly services: Queue<string>;
  readonly hosts: Queue<string>;
  readonly fleet: Queue<"all">;
  readonly models: Queue<string>;
  /** What has changed for placement is looked at together, once for many changes. */
  readonly placement: Queue<"all">;
}

export function createQueues(
  options: QueueOptions,
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

/** Every key that anything exists for: also what a vanished service or Host left behind. */
export function enqueueAll(caches: Caches, { services, hosts, fleet, models }: Queues): void {
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
