/** Reads the leader's watches and queues as facts for its metrics. */
import { LABEL_SERVICE } from "../../src/api/group.ts";
import { keyOf } from "../../src/api/names.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { LeaderFacts, PodSpeed, Watch } from "../frame/metrics/facts.ts";
import type { ControllerScheduler } from "../frame/scheduler/scheduler.ts";
import { modelKeyOf } from "../frame/service/path.ts";
import { requiredOwned, type Watches } from "../frame/watches/watches.ts";
import type { PodsQueue } from "../pods/queue.ts";
import type { LivePerformance } from "../services/performance/live-performance.ts";
import type { PodLoadTimes } from "../services/performance/pod-load-times.ts";
import type { PodLoad } from "../services/performance/pod-loads.ts";

export function leaderFacts(
  watches: Watches,
  queues: Readonly<Record<string, { readonly depth: () => number }>>,
  parts: {
    readonly scheduler: Pick<ControllerScheduler, "pending">;
    readonly podsQueue: PodsQueue;
    readonly performance: Pick<LivePerformance, "podLoads">;
    readonly podLoadTimes: PodLoadTimes;
  },
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
    waiting: { hosts: parts.scheduler.pending().length, pods: parts.podsQueue.length() },
    podSpeeds: parts.performance.podLoads().flatMap((load) => podSpeed(watches, load)),
    podLoads: parts.podLoadTimes.read(pods.list(), (pod) => labelsOf(watches, pod)),
    depths: Object.fromEntries(Object.entries(queues).map(([name, queue]) => [name, queue.depth()])),
  };
}

/** Empty if the engine does not report its tokens, and for a pod whose service or Model was deleted. */
function podSpeed(watches: Watches, { pod, runtime, performance }: PodLoad): readonly PodSpeed[] {
  const { tokensPerSecond } = performance;
  const labels = labelsOf(watches, pod, runtime);
  return tokensPerSecond === undefined || labels === undefined ? [] : [{ ...labels, tokensPerSecond }];
}

function labelsOf(watches: Watches, pod: Pod, ofPod?: string) {
  const { namespace, labels } = pod.metadata;
  const service = watches.services.get(keyOf({ namespace, name: labels?.[LABEL_SERVICE] ?? "" }));
  const model = service && watches.models.get(modelKeyOf(service))?.spec.source;
  const backend = ofPod ?? service?.status?.runtime;
  return model === undefined || backend === undefined
    ? undefined
    : { model, backend, node: pod.spec.nodeName ?? "" };
}
