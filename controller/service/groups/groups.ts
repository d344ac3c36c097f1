/** Reads the groups of a service from their pods. Pure. */
import { ANNOTATION_GROUP_SIZE, LABEL_GROUP_INDEX, LABEL_WORKER_INDEX } from "../../../src/api/group.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { isLive, isReadyPod, type ObservedPods, readPods } from "../pods/pods.ts";

export function isLeader({ metadata }: Pod): boolean {
  return metadata.labels?.[LABEL_WORKER_INDEX] === "0";
}

/** Counts groups instead of pods. Problems and pending pods are those of all pods. */
export function readGroups(pods: readonly Pod[]): ObservedPods {
  const all = readPods(pods);
  const leaders = pods.filter((pod) => isLeader(pod) && isLive(pod));
  return {
    ...all,
    ready: leaders.filter((leader) => isGroupReady(leader, pods)).length,
    live: leaders.length,
    // Workers answer no clients.
    keyless: all.keyless.filter((name) => leaders.some(({ metadata }) => metadata.name === name)),
  };
}

/** A leader may seem ready for a moment after a worker is lost, or while LeaderWorkerSet recreates the group. */
function isGroupReady(leader: Pod, pods: readonly Pod[]): boolean {
  const indexOf = ({ metadata }: Pod) => metadata.labels?.[LABEL_GROUP_INDEX];
  const members = pods.filter((pod) => indexOf(pod) === indexOf(leader) && isLive(pod) && isReadyPod(pod));
  const size = Number(leader.metadata.annotations?.[ANNOTATION_GROUP_SIZE] ?? 1);
  return isReadyPod(leader) && members.length >= size;
}
