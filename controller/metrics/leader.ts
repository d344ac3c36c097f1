/** Reads the leader's watches and queues as facts for its metrics. */
import type { Clock } from "../../src/util/ports.ts";
import type { ControllerScheduler } from "../scheduler/scheduler.ts";
import type { PodsQueue } from "../service/pods/queue.ts";
import { requiredOwned, type Watches } from "../watches/watches.ts";
import type { LeaderFacts, Watch } from "./facts.ts";

export function leaderFacts(
  watches: Watches,
  queues: Readonly<Record<string, { readonly depth: () => number }>>,
  waiting: { readonly scheduler: Pick<ControllerScheduler, "pending">; readonly podsQueue: PodsQueue },
  clock: Clock,
): LeaderFacts {
  const { models, services, hosts, leases, pods, replicas } = watches;
  const now = clock.monotonicMs();
  const copies = { models, services, hosts, leases, pods, ...requiredOwned(watches) };
  const signs = Object.entries(copies).map(([kind, copy]): Watch => {
    const sign = copy.lastActivityMs();
    return { kind, ageMs: sign === undefined ? undefined : now - sign, interruptions: copy.interruptions() };
  });
  return {
    services: services.list(),
    replicas: replicas.list(),
    hosts: hosts.list(),
    watches: signs,
    waiting: { hosts: waiting.scheduler.pending().length, pods: waiting.podsQueue.length() },
    depths: Object.fromEntries(Object.entries(queues).map(([name, queue]) => [name, queue.depth()])),
  };
}
