/** Reads why kube-scheduler finds no node for a pod, from the message of the pod's condition PodScheduled. Pure. */

/** `pendingVolume`: the volume may still be provisioned, so the scheduler has not judged the nodes yet. */
export type SchedulingObstacle = "hardware" | "pendingVolume" | "other";

/** Reasons that concern the node itself. The last two are those of our scheduler extender. */
const HARDWARE =
  /^(\d+ )?(.*insufficient|too many pods|cannot allocate all claims|.*device class \S+ does not exist|node\(s\) (had .*taint|were unschedulable|didn't match pod's node (affinity|selector))|GPU |MIG slice )/i;

/**
 * `hardware` if every node is refused for its own resources, devices, labels or taints. The scheduler checks volumes and other pods
 * only on nodes that have these, so any other reason means that the hardware of some node may be free.
 */
export function schedulingObstacle(message: string): SchedulingObstacle {
  if (/unbound immediate PersistentVolumeClaims|waiting for ephemeral volume controller/i.test(message))
    return "pendingVolume";
  const [reasons = ""] = message.replace(/^.*?nodes are available: /s, "").split(/\.? preemption: /);
  return reasons.split(/, (?=\d+ )/).every((reason) => HARDWARE.test(reason)) ? "hardware" : "other";
}

export function isAboutVolume(message: string): boolean {
  return /volume/i.test(message);
}

/** Names of resources in messages such as `3 Insufficient nvidia.com/gpu`. */
export function shortages(message: string): string[] {
  return [...message.matchAll(/Insufficient ([A-Za-z0-9._/-]*[A-Za-z0-9])/g)].map(([, name = ""]) => name);
}
