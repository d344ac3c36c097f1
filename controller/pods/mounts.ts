/** Finds problems with mounting the volumes of pods, which only Events report. */
import { isBeingDeleted } from "../../src/api/metadata.ts";
import type { KubeEvent } from "../../src/kube/objects.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { truncate } from "../../src/util/text.ts";
import { newestEventFirst, readEvents } from "../frame/watches/events.ts";
import type { PodProblem } from "./pods.ts";

export interface MountProblem {
  readonly problem?: PodProblem;
  /** When to read the Events of a waiting pod again, because Events are not watched. */
  readonly recheckAfterMs?: number;
}

/** Attaching a volume takes some seconds. Afterwards the kubelet and the attach controller report failures. */
const ATTACH_MS = 20_000;
const RECHECK_MS = 15_000;
const MAX_TEXT = 1_000;

/** The problem of the pod that has waited longest for its volumes. Never rejects. */
export async function readMountProblem(
  client: KubeClient,
  pods: readonly Pod[],
  nowMs: number,
): Promise<MountProblem> {
  const [first] = pods.filter(isMounting).sort((a, b) => boundAtMs(a) - boundAtMs(b));
  if (first === undefined) return {};
  const remainingMs = boundAtMs(first) + ATTACH_MS - nowMs;
  // The time is from another machine's clock, so the wait is limited to ATTACH_MS.
  if (remainingMs > 0) return { recheckAfterMs: Math.min(remainingMs, ATTACH_MS) };
  const problem = mountProblemIn(first.metadata.name, await readEvents(client, first));
  return { recheckAfterMs: RECHECK_MS, problem };
}

/** True if the pod has a node, and none of its containers has been created. */
export function isMounting(pod: Pod): boolean {
  const { spec, status } = pod;
  if (isBeingDeleted(pod) || spec.nodeName === undefined || status?.phase !== "Pending") return false;
  const containers = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  return containers.every(({ state, restartCount = 0 }) => {
    const { reason = "ContainerCreating" } = state?.waiting ?? {};
    const isWaiting = state?.running === undefined && state?.terminated === undefined;
    return (
      isWaiting && restartCount === 0 && (reason === "ContainerCreating" || reason === "PodInitializing")
    );
  });
}

/** The problem in the newest Event about a volume; undefined if there is none. */
export function mountProblemIn(pod: string, events: readonly KubeEvent[]): PodProblem | undefined {
  const last = newestEventFirst(events).find(
    ({ reason }) => reason === "FailedAttachVolume" || reason === "FailedMount",
  );
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
