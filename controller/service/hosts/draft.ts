/** The draft of a service from the watches as they are now, with its demands queued in the scheduler. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { keyOf } from "../../../src/api/names.ts";
import { claimOfReplica, waitingSince } from "../../../src/capacity/placement/claims.ts";
import { type Moment, momentOf } from "../../../src/util/moment.ts";
import { type PreemptedSlot, preemptedSlots, withPreempted } from "../../scheduler/preempted.ts";
import { readRefusals } from "../../scheduler/refusals.ts";
import type { Watches } from "../../watches/watches.ts";
import { type LiveService, soonest } from "../path.ts";
import type { ServiceObserved } from "./plan/observed.ts";
import { draftService, type RolloutFindings, type ServiceDraft } from "./plan/plan.ts";
import type { HostsPathPorts } from "./ports.ts";
import { readHealth } from "./rollout/health.ts";
import { ordinalOf } from "./rollout/slots.ts";

/** What a pass begins with. */
export interface CurrentDraft {
  readonly draft: ServiceDraft;
  readonly preempted: ReadonlyMap<number, PreemptedSlot>;
  readonly recheckAfterMs: number | undefined;
}

/** The current demands of a service; used before the first pass too, so that the queue is complete. */
export function currentDraftOf(ports: HostsPathPorts, { key, service, own }: LiveService): CurrentDraft {
  const { clock, scheduler, watches, memory } = ports;
  const moment = momentOf(clock);
  const replicas = memory.upToDate(service.metadata.uid ?? "", own.replicas, moment.monotonicMs);
  const observed = observe(watches, service, { ...own, replicas });
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
  const { namespace } = service.metadata;
  const { modelRef, speculativeDecoding, loraAdapters = [] } = service.spec;
  const draftRef = speculativeDecoding?.draftModelRef;
  const modelOf = (name: string) => watches.models.get(keyOf({ namespace, name }));
  const hosts = new Map(watches.hosts.list().map((host) => [host.metadata.name, host]));
  return {
    service,
    model: modelOf(modelRef),
    draftModel: draftRef === undefined ? undefined : modelOf(draftRef),
    loraModels: loraAdapters.map((adapter) => modelOf(adapter.modelRef)),
    hosts,
    ...own,
  };
}

function findingsOn(
  { scheduler, memory, moving }: HostsPathPorts,
  key: string,
  replicas: readonly InferenceReplica[],
  moment: Moment,
): { readonly findings: RolloutFindings; readonly recheckAfterMs: number | undefined } {
  const refusals = readRefusals(scheduler.refusals(key), replicas, moment.monotonicMs);
  scheduler.setRefusals(key, refusals.book);
  const { book, failing, unsettled, recheckAfterMs } = readHealth(memory.health(key), replicas, moment);
  memory.setHealth(key, book);
  const left = moving.from(key).filter(({ by }) => by === "replica");
  const refusal = (host: string, message: string) => ({ host, atMs: moment.monotonicMs, message });
  return {
    findings: {
      displaced: refusals.displaced,
      failing,
      unsettled,
      leaving: left.map(({ machine }) => machine),
      notTo: left.flatMap(({ machine, notTo }) =>
        notTo.map((host) => refusal(host, `scores no higher than ${machine}`)),
      ),
      refusals: [...refusals.book.refusals, ...left.map(({ machine, because }) => refusal(machine, because))],
    },
    recheckAfterMs: soonest([refusals.recheckAfterMs, recheckAfterMs])?.recheckAfterMs,
  };
}

/** Priority and protection of running replicas follow the service, which may have changed. */
function noteClaims(
  { scheduler }: HostsPathPorts,
  service: InferenceService,
  replicas: readonly InferenceReplica[],
  moment: Moment,
): void {
  for (const replica of replicas) {
    const claim = claimOfReplica(replica, service, moment);
    scheduler.noteClaim(claim.replica, claim);
  }
}
