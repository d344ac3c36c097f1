/** Plans the demands of a service on hosts from the watches and from what earlier passes found, and queues them. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { keyOf } from "../../src/api/names.ts";
import { claimOfReplica, waitingSince } from "../../src/capacity/placement/claims.ts";
import { transportOf } from "../../src/capacity/transport.ts";
import { benchmarksIn } from "../../src/cluster/benchmarks.ts";
import { type Moment, momentOf } from "../../src/util/moment.ts";
import type { Departure } from "../frame/move-tracker.ts";
import { type PreemptedSlot, preemptedSlots, withPreempted } from "../frame/scheduler/preempted.ts";
import { type RefusalHistory, readRefusals } from "../frame/scheduler/refusals.ts";
import { type LiveService, namedModels, soonest } from "../frame/service/path.ts";
import type { Watches } from "../frame/watches/watches.ts";
import type { Sealing, ServiceObserved } from "./plan/observed.ts";
import { draftService, type ServiceDraft } from "./plan/plan.ts";
import type { HostsPathPorts } from "./ports.ts";
import { type HealthHistory, readHealth } from "./rollout/health.ts";
import { ordinalOf } from "./rollout/slots.ts";

export interface DemandsInput {
  readonly observed: ServiceObserved;
  readonly refusals: RefusalHistory;
  readonly health: HealthHistory;
  /** Moves of live eviction off hosts. */
  readonly departures: readonly Departure[];
  readonly moment: Moment;
}

/** `refusals` and `health` are for the next pass. */
export interface PlannedDemands extends Pick<DemandsInput, "refusals" | "health" | "moment"> {
  readonly draft: ServiceDraft;
  readonly preempted: ReadonlyMap<number, PreemptedSlot>;
  readonly recheckAfterMs: number | undefined;
}

export function observeDemands(
  { clock, scheduler, watches, memory, moving, transport }: HostsPathPorts,
  { key, service, own, flavor, backend, blocked }: LiveService,
): DemandsInput {
  const moment = momentOf(clock);
  const replicas = memory.upToDate(service.metadata.uid ?? "", own.replicas, moment.monotonicMs);
  const hosts = new Map(watches.hosts.list().map((host) => [host.metadata.name, host]));
  const benchmarks = benchmarksIn(watches.benchmarks);
  const named = namedModels(watches.models, service);
  const sealing = observeSealing(transport, service, own);
  return {
    observed: { service, ...named, hosts, benchmarks, ...own, replicas, flavor, backend, blocked, sealing },
    refusals: scheduler.refusals(key),
    health: memory.health(key),
    departures: moving.from(key).filter(({ by }) => by === "replica"),
    moment,
  };
}

/** A service without sealed replicas has no port on the relays. */
function observeSealing(
  { byDefault, clients, relays, portOf }: HostsPathPorts["transport"],
  { metadata, spec }: InferenceService,
  { relaySlices, replicas }: LiveService["own"],
): Sealing {
  const sealing = { byDefault, clients: clients() };
  const addresses = relays();
  const isSealed =
    transportOf(spec, byDefault) === "Sealed" ||
    replicas.some((one) => one.spec.template.transport === "Sealed");
  if (addresses === undefined || !isSealed) return sealing;
  const port = portOf(metadata.uid ?? "", relaySlices[0]);
  return port === undefined ? sealing : { ...sealing, relays: { addresses, port } };
}

/** Drafts the service, and the slots that need a host. Pure. */
export function planDemands({ observed, departures, moment, ...last }: DemandsInput): PlannedDemands {
  const { service, replicas } = observed;
  const { monotonicMs: atMs } = moment;
  const refusals = readRefusals(last.refusals, replicas, atMs);
  const { history, failing, unsettled, recheckAfterMs } = readHealth(last.health, replicas, moment);
  const left = departures.map(({ machine, because }) => ({ host: machine, atMs, message: because }));
  const draft = draftService(observed, {
    displaced: refusals.displaced,
    failing,
    unsettled,
    leaving: departures.map(({ machine }) => machine),
    notTo: departures.flatMap(({ machine, notTo }) =>
      notTo.map((host) => ({ host, atMs, message: `scores no higher than ${machine}` })),
    ),
    refusals: [...refusals.history.refusals, ...left],
  });
  const preempted = preemptedSlots(replicas, service.status, ordinalOf);
  const waitingSinceMs = waitingSince(service, moment);
  const demands = withPreempted(draft.demands, preempted).map((demand) =>
    waitingSinceMs === undefined ? demand : { ...demand, waitingSinceMs },
  );
  return {
    draft: { ...draft, demands },
    preempted,
    refusals: refusals.history,
    health: history,
    moment,
    recheckAfterMs: soonest([refusals.recheckAfterMs, recheckAfterMs])?.recheckAfterMs,
  };
}

/** Stores the findings for the next pass, and queues the demands. Also before the first pass, so that the queue is complete. */
export function storeDemands(
  ports: HostsPathPorts,
  { key, service, own }: LiveService,
  { draft, refusals, health, moment }: PlannedDemands,
): void {
  ports.scheduler.setRefusals(key, refusals);
  ports.memory.setHealth(key, health);
  noteClaims(ports, service, own.replicas, moment);
  ports.scheduler.setDemands(key, draft.demands, moment.monotonicMs);
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
