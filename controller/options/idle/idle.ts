/** Keeps what the controller knows of the use of services with spec.idle, and decides in each pass whether one stays loaded. */
import { demandLeaseName, readDemandLease } from "../../../src/api/demand-lease.ts";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { MemoryOffer } from "../../../src/capacity/placement/claims.ts";
import { serviceOfSlot } from "../../../src/capacity/placement/types.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { momentOf } from "../../../src/util/moment.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { Option } from "../../frame/option.ts";
import type { ControllerScheduler } from "../../frame/scheduler/scheduler.ts";
import type { IdleDecision, IdleServices } from "../../frame/service/idle-report.ts";
import type { LiveService } from "../../frame/service/path.ts";
import type { Watches } from "../../frame/watches/watches.ts";
import { isServingReplica } from "../../hosts/rollout/slots.ts";
import { isReadyPod } from "../../pods/pods.ts";
import {
  type IdleInput,
  type IdlePlan,
  type IdleRecord,
  idleStatusOf,
  planIdle,
  withRequest,
} from "./plan.ts";

export interface IdlePorts {
  readonly watches: Pick<Watches, "demandLeases">;
  readonly clock: Clock;
  readonly scheduler: Pick<ControllerScheduler, "preemptions">;
  /** Plans a pass over a service after this time. */
  readonly onChange: (key: string, afterMs: number) => void;
}

/** The status shows the time of the last request to the minute. */
const SHOWN_WITHIN_MS = 60_000;

interface Known {
  readonly uid: string | undefined;
  readonly record: IdleRecord;
  readonly offer: MemoryOffer | undefined;
}

export function createIdleServices(ports: IdlePorts): IdleServices {
  const known = new Map<string, Known>();
  const note = (key: string, mark: string | undefined): void => {
    const before = known.get(key);
    if (before === undefined) return;
    const record = withRequest(before.record, momentOf(ports.clock), mark);
    const isTakenBack = before.offer?.to === "all";
    known.set(key, { ...before, record, offer: isTakenBack ? undefined : before.offer });
    // The scheduler must not give its memory away any more.
    ports.onChange(key, isTakenBack ? 0 : SHOWN_WITHIN_MS);
  };
  const takesTurns = (key: string): boolean => known.get(key)?.record.state === "Waking";
  const forget = (key: string): void => {
    const wasQueued = known.get(key)?.record.queuedSinceMs !== undefined;
    known.delete(key);
    if (wasQueued) recheckTurns(key);
  };
  /** The turn of a loaded service depends on the services that wait. */
  const recheckTurns = (changed: string): void => {
    for (const [key, { record }] of known)
      if (key !== changed && record.servingSinceMs !== undefined) ports.onChange(key, 0);
  };
  return {
    decide: (live, use) => {
      const { key, service } = live;
      const { idle, suspend, replicas } = service.spec;
      if (idle === undefined || suspend || replicas === 0) {
        forget(key);
        return { live };
      }
      const { uid } = service.metadata;
      const last = known.get(key);
      const plan = planFor(ports, live, {
        settings: idle,
        use,
        before: last?.uid === uid ? last?.record : undefined,
        othersQueuedSinceMs: queuedSince(known, key),
        takesTurns,
      });
      known.set(key, { uid, record: plan.record, offer: plan.offer });
      if (plan.record.queuedSinceMs !== last?.record.queuedSinceMs) recheckTurns(key);
      return decisionOf(live, plan);
    },
    noteDemand: (key, mark) => {
      const record = known.get(key)?.record;
      if (record === undefined || record.mark === mark) return;
      // The pass compares the marks, so a renewal wakes the service exactly once.
      if (record.state !== "Waking" && record.servingSinceMs === undefined) ports.onChange(key, 0);
      else note(key, mark);
    },
    noteUse: (key) => {
      if (known.get(key)?.record.state !== "Idle") note(key, undefined);
    },
    offer: (key) => known.get(key)?.offer,
    yieldsTo: (key, to) => {
      const offer = known.get(key)?.offer;
      return offer?.to === "all" || (offer?.to === "turns" && takesTurns(to));
    },
    forget,
  };
}

/** Wall time since which the first of the other services waits for memory. */
function queuedSince(known: ReadonlyMap<string, Known>, besides: string): number | undefined {
  const waits = [...known].map(([key, { record }]) => (key === besides ? undefined : record.queuedSinceMs));
  const times = waits.filter((at) => at !== undefined);
  return times.length === 0 ? undefined : Math.min(...times);
}

function planFor(
  ports: IdlePorts,
  live: LiveService,
  {
    takesTurns,
    ...known
  }: Pick<IdleInput, "settings" | "use" | "before" | "othersQueuedSinceMs"> & {
    readonly takesTurns: (service: string) => boolean;
  },
): IdlePlan {
  const { key, service, own } = live;
  const { name, namespace } = service.metadata;
  const lease = ports.watches.demandLeases.get(keyOf({ namespace, name: demandLeaseName(name) }));
  const replicas = own.replicas.filter((one) => !isBeingDeleted(one));
  const pods = own.pods.filter((pod) => !isBeingDeleted(pod) && answersClients(pod));
  const [order] = ports.scheduler.preemptions(key);
  const preemptor = order && serviceOfSlot(order.for);
  return planIdle({
    ...known,
    written: service.status?.idle,
    mark: lease && readDemandLease(lease)?.mark,
    isServing: replicas.some(isServingReplica) || pods.some(isReadyPod),
    isStarting: replicas.length > 0 || pods.some(({ spec }) => spec.nodeName !== undefined),
    hosts: [...new Set(replicas.map(({ spec }) => spec.template.hostName))].sort(),
    displacedBy:
      preemptor === undefined ? undefined : { service: preemptor, takesTurns: takesTurns(preemptor) },
    now: momentOf(ports.clock),
  });
}

/** Workers of a group have no label of the service. */
function answersClients({ metadata }: Pod): boolean {
  return metadata.labels?.[LABEL_SERVICE] !== undefined;
}

function decisionOf(live: LiveService, { record, code, message, recheckAfterMs }: IdlePlan): IdleDecision {
  const { service } = live;
  const isIdle = record.state === "Idle";
  const spec = isIdle ? { ...service.spec, suspend: true } : service.spec;
  const status = { ...service.status, idle: idleStatusOf(record) };
  return {
    live: { ...live, service: { ...service, spec, status } },
    condition: { type: "Idle", status: isIdle ? "True" : "False", reason: code, message },
    recheckAfterMs,
  };
}

export const idle: Option = {
  start: () => ({
    lead: (ports) => ({ idle: createIdleServices({ ...ports, onChange: ports.services.enqueueAfter }) }),
  }),
};
