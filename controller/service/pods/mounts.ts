/** Why pods that have a node do not start: what keeps their volumes from being mounted is in Events alone. */
import { EVENTS } from "../../../src/kube/kinds.ts";
import type { KubeEvent } from "../../../src/kube/objects.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { truncate } from "../../../src/util/text.ts";
import type { PodProblem } from "./pods.ts";

export interface MountProblem {
  readonly problem?: PodProblem;
  /** The Events of a pod that waits are read again then: they change nothing that is watched. */
  readonly recheckAfterMs?: number;
}

/** A volume that is being attached takes some seconds; kubelet and the attach controller then report what fails. */
const PATIENCE_MS = 20_000;
const RECHECK_MS = 15_000;
const MAX_TEXT = 1_000;

/** Why the pod that has waited longest for its volumes still waits. Never rejects. */
export async function readMountProblem(
  client: KubeClient,
  pods: readonly Pod[],
  nowMs: number,
): Promise<MountProblem> {
  const [first] = pods.filter(isMounting).sort((a, b) => boundAtMs(a) - boundAtMs(b));
  if (first === undefined) return {};
  const remainingMs = boundAtMs(first) + PATIENCE_MS - nowMs;
  // Another machine's clock: never longer than the time itself.
  if (remainingMs > 0) return { recheckAfterMs: Math.min(remainingMs, PATIENCE_MS) };
  const listed = await client.list(EVENTS, {
    namespace: first.metadata.namespace ?? "default",
    fieldSelector: `regarding.uid=${first.metadata.uid}`,
  });
  const problem = listed.ok ? mountProblemIn(first.metadata.name, listed.value.items) : undefined;
  return { recheckAfterMs: RECHECK_MS, problem };
}

/** It has a node, and none of its containers has been created. */
export function isMounting({ metadata, spec, status }: Pod): boolean {
  if (metadata.deletionTimestamp !== undefined || spec.nodeName === undefined) return false;
  if (status?.phase !== "Pending") return false;
  const containers = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  return containers.every(({ state, restartCount = 0 }) => {
    const { reason = "ContainerCreating" } = state?.waiting ?? {};
    const isWaiting = state?.running === undefined && state?.terminated === undefined;
    return (
      isWaiting && restartCount === 0 && (reason === "ContainerCreating" || reason === "PodInitializing")
    );
  });
}

/** The newest of these Events; undefined if none is about a volume. */
export function mountProblemIn(pod: string, events: readonly KubeEvent[]): PodProblem | undefined {
  const [last] = events
    .filter(({ reason }) => reason === "FailedAttachVolume" || reason === "FailedMount")
    .sort((a, b) => versionOf(b) - versionOf(a));
  if (last === undefined) return undefined;
  const { reason = "", note = "" } = last;
  const isReference = /(secret|configmap)s? "[^"]*" not found|references non-existent (secret|config) key/i;
  const code = isReference.test(note) ? "PodConfigInvalid" : "VolumeNotMounted";
  return { code, message: truncate(`${pod}: ${reason}: ${note}`, MAX_TEXT) };
}

function boundAtMs({ status, metadata }: Pod): number {
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  return Date.parse(scheduled?.lastTransitionTime ?? metadata.creationTimestamp ?? "") || 0;
}

/** Orders Events about one object by when they were last repeated: by their resourceVersion. */
function versionOf({ metadata }: KubeEvent): number {
  return Number(metadata.resourceVersion ?? 0);
}
