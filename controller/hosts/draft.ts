/** Drafts a service from the current watches, and queues its demands in the scheduler. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { keyOf } from "../../src/api/names.ts";
import { claimOfReplica, waitingSince } from "../../src/capacity/placement/claims.ts";
import { benchmarksIn } from "../../src/cluster/benchmarks.ts";
import { type Moment, momentOf } from "../../src/util/moment.ts";
import { type PreemptedSlot, preemptedSlots, withPreempted } from "../frame/scheduler/preempted.ts";
import { readRefusals } from "../frame/scheduler/refusals.ts";
import { type LiveService, namedModels, soonest } from "../frame/service/path.ts";
import type { Watches } from "../frame/watches/watches.ts";
import type { ServiceObserved } from "./plan/observed.ts";
import { draftService, type RolloutFindings, type ServiceDraft } from "./plan/plan.ts";
import type { HostsPathPorts } from "./ports.ts";
import { readHealth } from "./rollout/health.ts";
import { ordinalOf } from "./rollout/slots.ts";

/** The input of a pass. */
export interface CurrentDraft {
  readonly draft: ServiceDraft;
  readonly preempted: ReadonlyMap<number, PreemptedSlot>;
  readonly recheckAfterMs: number | undefined;
}

/** Drafts a service and updates its demands. Also used before the first pass, so that the queue is complete. */
export function currentDraftOf(ports: HostsPathPorts, live: LiveService): CurrentDraft {
  const { key, service, own, flavor, backend, blocked } = live;
  const { clock, scheduler, watches, memory } = ports;
  const moment = momentOf(clock);
  const replicas = memory.upToDate(service.metadata.uid ?? "", own.replicas, moment.monotonicMs);
  const observed = { ...observe(watches, service, { ...own, replicas }), flavor, backend, blocked };
  const { findings, recheckAfterMs } = findingsOn(ports, key, replicas, moment);
  noteClaims(ports, service, own.replicas, moment);
  const bare = draftService(observed, findings);
  const slots = preemptedSlots(observed.replicas, service.status, ordinalOf);
  const waitingSinceMs = waitingSince(service, moment);
  const demands = withPreempted(bare.demands, slots).map((demand) =>
    waitingSinceMs === undefined ? demand : { ...demand, waitingSinceMs },
  );
  scheduler.setDemands(key, demands, moment.monotonicMs);
  return { draft: { ...bare, demands }, preempted: slots, recheckAfterMs };
}

function observe(watches: Watches, service: InferenceService, own: LiveService["own"]): ServiceObserved {
  const hosts = new Map(watches.hosts.list().map((host) => [host.metadata.name, host]));
  const benchmarks = benchmarksIn(watches.benchmarks);
  return { service, ...namedModels(watches.models, service), hosts, benchmarks, ...own };
}

function findingsOn(
  { scheduler, memory, moving }: HostsPathPorts,
  key: string,
  replicas: readonly InferenceReplica[],
  moment: Moment,
): { readonly findings: RolloutFindings; readonly recheckAfterMs: number | undefined } {
  const refusals = readRefusals(scheduler.refusals(key), replicas, moment.monotonicMs);
  scheduler.setRefusals(key, refusals.history);
  const { history, failing, unsettled, recheckAfterMs } = readHealth(memory.health(key), replicas, moment);
  memory.setHealth(key, history);
  const moves = moving.from(key).filter(({ by }) => by === "replica");
  const refusal = (host: string, message: string) => ({ host, atMs: moment.monotonicMs, message });
  return {
    findings: {
      displaced: refusals.displaced,
      failing,
      unsettled,
      leaving: moves.map(({ machine }) => machine),
      notTo: moves.flatMap(({ machine, notTo }) =>
        notTo.map((host) => refusal(host, `scores no higher than ${machine}`)),
      ),
      refusals: [
        ...refusals.history.refusals,
        ...moves.map(({ machine, because }) => refusal(machine, because)),
      ],
    },
    recheckAfterMs: soonest([refusals.recheckAfterMs, recheckAfterMs])?.recheckAfterMs,
  };
}

interface ClaimPorts {
  readonly scheduler: Pick<HostsPathPorts["scheduler"], "noteClaim">;
  readonly idle: Pick<HostsPathPorts["idle"], "offer">;
  readonly watches: { readonly replicas: Pick<Watches["replicas"], "get"> };
}

/**
 * Updates the claims of running replicas, because their priority and protection follow the service. The pass may have waited since
 * it observed them: a claim of a replica that is gone would never be removed.
 */
export function noteClaims(
  { scheduler, idle, watches }: ClaimPorts,
  service: InferenceService,
  replicas: readonly InferenceReplica[],
  moment: Moment,
): void {
  const offer = idle.offer(keyOf(service.metadata));
  for (const { metadata } of replicas) {
    const current = watches.replicas.get(keyOf(metadata));
    if (current === undefined || current.metadata.uid !== metadata.uid) continue;
    scheduler.noteClaim(keyOf(metadata), claimOfReplica(current, service, moment, offer));
  }
}
