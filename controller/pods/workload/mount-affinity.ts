/** Keeps pods that mount the same claim on one node, if only one node at a time can mount its volume. Pure. */
import { LABEL_MOUNTS } from "../../../src/api/group.ts";
import type { PodSpec } from "../../../src/kube/workload-objects.ts";
import { hash } from "../../../src/util/hash.ts";

export const HOSTNAME_LABEL = "kubernetes.io/hostname";

export type PodAffinity = {
  readonly podAffinity?: { readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly object[] };
};

/** The label of pods that mount this claim. */
export function mountLabelOf(claimName: string): string {
  return `${LABEL_MOUNTS}${hash(claimName, 16)}`;
}

/**
 * Schedules the pod onto the node of the pods that mount the same PVC. Otherwise the scheduler may choose a node to which the
 * volume cannot be attached, and the pod hangs. The first pod matches its own term, so the scheduler ignores the rule for it.
 */
export function withMounts(given: PodSpec["affinity"], key: string | undefined): PodSpec["affinity"] {
  if (key === undefined) return given;
  const { podAffinity } = (given ?? {}) as PodAffinity;
  const requiredDuringSchedulingIgnoredDuringExecution = [
    ...(podAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []),
    {
      labelSelector: { matchExpressions: [{ key, operator: "Exists" }] },
      topologyKey: HOSTNAME_LABEL,
    },
  ];
  return { ...given, podAffinity: { ...podAffinity, requiredDuringSchedulingIgnoredDuringExecution } };
}
