/** Live performance of services: the sum over their ready replicas, held back so that a service is written seldom. */

import type { Performance } from "../../../src/api/fields/performance.ts";
import { duePerformance, sumPerformance } from "../../../src/engines/live-performance.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { Watches } from "../../watches/watches.ts";
import { isServingReplica } from "../hosts/rollout/slots.ts";
import { uidLabelOf } from "../owned/kinds.ts";
import { observeService } from "../owned/observe.ts";
import { isReadyPod } from "../pods/pods.ts";
import type { ServicePerformance } from "../ports.ts";
import { type PodLoad, serviceKeyOf, startPodLoads } from "./pod-loads.ts";

export interface LivePerformance extends ServicePerformance {
  /** The loads of all ready pods. */
  readonly podLoads: () => readonly PodLoad[];
}

export interface LivePerformanceOptions {
  readonly watches: Watches;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called for a service whose pods have another performance than its status. */
  readonly onChange: (key: string) => void;
}

interface Written {
  readonly at: number;
  readonly performance: Performance | undefined;
}

/** Agents report the performance on hosts; that of pods is read until `signal` is aborted. */
export function startLivePerformance(options: LivePerformanceOptions): LivePerformance {
  const { watches, clock, signal, onChange } = options;
  /** The last change by `namespace/name`. The watch may not show it yet. */
  const written = new Map<string, Written>();
  const onRead = (keys: readonly string[]): void => {
    for (const key of keys) {
      const { service, own } = observeService(watches, key);
      if (service === undefined) continue;
      const { performance } = of({ key, service, own });
      if (!isDeepEqual(performance, service.status?.performance)) onChange(key);
    }
  };
  /** Anyone who may create pods can label them, so only pods with the uid of a service are read. */
  const pods = () =>
    watches.pods.list().filter((pod) => {
      const uid = watches.services.get(serviceKeyOf(pod))?.metadata.uid;
      return uid !== undefined && uid === uidLabelOf(pod);
    });
  const loads = startPodLoads({ pods, clock, signal, onRead });
  const of: LivePerformance["of"] = ({ key, service, own }) => {
    const last = written.get(key);
    const before = last === undefined ? service.status?.performance : last.performance;
    const pods = own.pods.filter(isReadyPod);
    const inPods = loads.of(pods);
    // After a change of leader, pods were not read twice yet.
    if (inPods === undefined && pods.length > 0) return { performance: before };
    const onHosts = own.replicas.filter(isServingReplica).flatMap(({ status }) => status?.performance ?? []);
    const exact = sumPerformance([...onHosts, ...(inPods ?? []).map(({ performance }) => performance)]);
    const now = clock.monotonicMs();
    const { performance, dueInMs } = duePerformance(before, exact, { writtenAt: last?.at, now });
    if (performance !== before) written.set(key, { at: now, performance });
    return { performance, recheckAfterMs: dueInMs };
  };
  return {
    of,
    forget: (key) => {
      written.delete(key);
    },
    podLoads: () => loads.of(watches.pods.list()) ?? [],
  };
}
