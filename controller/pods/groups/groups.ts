/** Reads the groups of a service from their pods. Pure. */
import { ANNOTATION_GROUP_SIZE, LABEL_GROUP_INDEX, LABEL_WORKER_INDEX } from "../../../src/api/group.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { isInGroup, isLive, isReadyPod, type ObservedPods, readPods } from "../pods.ts";

export function isLeader({ metadata }: Pod): boolean {
  return metadata.labels?.[LABEL_WORKER_INDEX] === "0";
}

/** Counts groups instead of pods. Problems and pending pods are those of all pods. */
export function readGroups(pods: readonly Pod[]): ObservedPods {
  const all = readPods(pods);
  const leaders = pods.filter((pod) => isLeader(pod) && isLive(pod));
  return {
    ...all,
    ready: countGroups(pods, isReadyPod),
    live: leaders.length,
    // Workers answer no clients.
    keyless: all.keyless.filter((name) => leaders.some(({ metadata }) => metadata.name === name)),
  };
}

/**
 * Number of groups whose pods are all live and as required. A leader may seem ready for a moment after a worker is lost, or while
 * LeaderWorkerSet recreates the group.
 */
export function countGroups(pods: readonly Pod[], isAsRequired: (pod: Pod) => boolean): number {
  const indexOf = ({ metadata }: Pod) => metadata.labels?.[LABEL_GROUP_INDEX];
  const members = pods.filter((pod) => isLive(pod) && isAsRequired(pod));
  return members.filter((leader) => {
    const size = Number(leader.metadata.annotations?.[ANNOTATION_GROUP_SIZE] ?? 1);
    return isLeader(leader) && members.filter((pod) => indexOf(pod) === indexOf(leader)).length >= size;
  }).length;
}

/** Number of replicas that serve: groups, and pods of a Deployment. */
export function countServing(pods: readonly Pod[]): number {
  const single = pods.filter((pod) => !isInGroup(pod) && isLive(pod) && isReadyPod(pod));
  return countGroups(pods, isReadyPod) + single.length;
}
