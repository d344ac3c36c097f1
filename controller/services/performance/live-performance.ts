/** Live performance of services: the sum over their ready replicas, held back so that a service is written seldom. */

import type { Performance, TotalPerformance } from "../../../src/api/fields/performance.ts";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { requestsOfReplica } from "../../../src/capacity/placement/claims.ts";
import { duePerformance, sumPerformance } from "../../../src/engines/live-performance.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { uidLabelOf } from "../../frame/owned/kinds.ts";
import { observeService } from "../../frame/owned/observe.ts";
import type { Use } from "../../frame/service/idle-report.ts";
import type { Watches } from "../../frame/watches/watches.ts";
import { isServingReplica } from "../../hosts/rollout/slots.ts";
import { isReadyPod } from "../../pods/pods.ts";
import type { ServicePerformance } from "../ports.ts";
import { type PodLoad, serviceKeyOf, startPodLoads } from "./pod-loads.ts";

export interface LivePerformance extends ServicePerformance {
  /** Plans a pass over those of these services (`namespace/name`) that have another performance than their status. */
  readonly compare: (services: readonly string[]) => void;
  /** The loads of all ready pods. */
  readonly podLoads: () => readonly PodLoad[];
}

export interface LivePerformanceOptions {
  readonly watches: Watches;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called for a service that has another performance than its status, with the time until it may be written. */
  readonly onChange: (key: string, afterMs: number) => void;
  /** Called for a service whose replicas have requests. */
  readonly onUse: (key: string) => void;
}

const UNKNOWN_REQUESTS: TotalPerformance = { requestsUnknown: true };

interface Written {
  readonly at: number;
  readonly performance: TotalPerformance | undefined;
}

/** Agents report the performance on hosts; that of pods is read until `signal` is aborted. */
export function startLivePerformance(options: LivePerformanceOptions): LivePerformance {
  const { watches, clock, signal, onChange, onUse } = options;
  /** The last change by `namespace/name`. The watch may not show it yet. */
  const written = new Map<string, Written>();
  const compare = (keys: readonly string[]): void => {
    for (const key of keys) {
      const { service, own } = observeService(watches, key);
      if (service === undefined) continue;
      const { performance, use, recheckAfterMs } = update({ key, service, own });
      if (use === "busy") onUse(key);
      const isWritten = isDeepEqual(performance, service.status?.performance);
      const afterMs = isWritten ? recheckAfterMs : 0;
      if (afterMs !== undefined) onChange(key, afterMs);
    }
  };
  /** Anyone who may create pods can label them, so only pods with the uid of a service are read. */
  const pods = () =>
    watches.pods.list().filter((pod) => {
      const uid = watches.services.get(serviceKeyOf(pod))?.metadata.uid;
      return uid !== undefined && uid === uidLabelOf(pod);
    });
  const loads = startPodLoads({ pods, clock, signal, onRead: compare });
  const update: LivePerformance["update"] = ({ key, service, own }) => {
    const last = written.get(key);
    const before = last === undefined ? service.status?.performance : last.performance;
    const pods = own.pods.filter(servesRequests);
    const loadsOfPods = loads.of(pods);
    // After a change of leader, pods were not read twice yet. The last leader has not counted pods that became ready since.
    if (loadsOfPods === undefined && pods.length > 0)
      return {
        performance: pods.length > (service.status?.readyReplicas ?? 0) ? UNKNOWN_REQUESTS : before,
        use: "unknown",
      };
    const inPods = (loadsOfPods ?? []).map(({ performance }) => performance);
    const unread: Performance[] = Array.from({ length: pods.length - inPods.length }, () => ({}));
    const onHosts = own.replicas.filter(isServingReplica).map(performanceOf);
    const exact = sumPerformance([...onHosts, ...inPods, ...unread]);
    const now = clock.monotonicMs();
    const { performance, dueInMs } = duePerformance(before, exact, { writtenAt: last?.at, now });
    if (performance !== before) written.set(key, { at: now, performance });
    return { performance, use: useOf(exact), recheckAfterMs: dueInMs };
  };
  return {
    update,
    compare,
    forget: (key) => {
      written.delete(key);
    },
    podLoads: () => loads.of(watches.pods.list()) ?? [],
  };
}

function useOf({ requestsUnknown, requestsInFlight = 0, tokensPerSecond = 0 }: TotalPerformance): Use {
  if (requestsInFlight > 0 || tokensPerSecond > 0) return "busy";
  return requestsUnknown === true ? "unknown" : "quiet";
}

/** Workers of a group have no label of the service, and answer no clients. */
function servesRequests(pod: Pod): boolean {
  return isReadyPod(pod) && !isBeingDeleted(pod) && pod.metadata.labels?.[LABEL_SERVICE] !== undefined;
}

/** The status of an idle replica has no figures. */
function performanceOf(replica: InferenceReplica): Performance {
  return { ...replica.status?.performance, requestsInFlight: requestsOfReplica(replica) };
}
