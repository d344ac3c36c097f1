/** Reads whether Kueue has admitted the pods of a service, from their scheduling gates and their Workloads. Pure. */
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import { errorCatalog } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { hasPodEnded, type Pod, type QueueWorkload } from "../../src/kube/workload-objects.ts";
import { truncate } from "../../src/util/text.ts";
import { createdMs, isLive } from "./pods.ts";
import { isQueueGate, queueNameOf } from "./workload/queue-labels.ts";

export interface ObservedQuota {
  /** Name of the LocalQueue; undefined if Kueue manages pods without a queue name. */
  readonly queue: string | undefined;
  /** Live pods that Kueue manages, and those of them that it has not admitted. */
  readonly managed: number;
  readonly waiting: number;
  /** What Kueue reports for the oldest pod that waits. */
  readonly reason: string;
  /** What Kueue reports for the first pod that it evicted and that still exists. */
  readonly eviction: string | undefined;
  /** Live pods that have neither a Workload nor a gate of Kueue. */
  readonly unmanaged: number;
}

const MAX_TEXT = 1_000;

/** `workloadsOf` finds the Workloads that a pod owns. Undefined if the service has nothing to do with Kueue. */
export function readQuota(
  service: InferenceService,
  pods: readonly Pod[],
  workloadsOf: (uid: string) => readonly QueueWorkload[],
): ObservedQuota | undefined {
  const queue = queueNameOf(service);
  const workloadOf = ({ metadata }: Pod) => workloadsOf(metadata.uid ?? "")[0];
  const live = pods.filter(isLive);
  const managed = live.filter((pod) => isQueued(pod) || workloadOf(pod) !== undefined);
  if (queue === undefined && managed.length === 0) return undefined;
  const waiting = managed.filter(isQueued).sort((a, b) => createdMs(a) - createdMs(b));
  const [oldest] = waiting;
  // Kueue deletes an evicted pod, and its Deployment replaces it.
  const evictions = pods.filter((pod) => !hasPodEnded(pod)).map((pod) => reported(workloadOf(pod), EVICTED));
  return {
    queue,
    managed: managed.length,
    waiting: waiting.length,
    reason: oldest === undefined ? "" : waitReason(workloadOf(oldest)),
    eviction: evictions.find((text) => text !== undefined),
    unmanaged: live.length - managed.length,
  };
}

/** True while Kueue holds the pod. */
export function isQueued({ spec }: Pod): boolean {
  return spec.schedulingGates?.some(isQueueGate) === true;
}

/** Such as `1 of 2 pods waits for quota in queue team-a: Pending: …`. */
export function waitsForQuota({ queue, managed, waiting, reason }: ObservedQuota): string {
  const where = queue === undefined ? "" : ` in queue ${queue}`;
  return `${waiting} of ${managed} pods ${waiting === 1 ? "waits" : "wait"} for quota${where}: ${reason}`;
}

/** The condition QueueAdmitted. */
export function quotaCondition(quota: ObservedQuota): ConditionUpdate {
  const { queue, managed, waiting, eviction, unmanaged } = quota;
  const type = "QueueAdmitted";
  const name = queue ?? "of Kueue";
  if (eviction !== undefined) {
    const message = `Kueue evicts a pod from queue ${name}: ${eviction}`;
    return { type, status: "False", reason: "QueueEvicted", message };
  }
  if (waiting > 0) return { type, status: "False", reason: "WaitingForQuota", message: waitsForQuota(quota) };
  if (unmanaged > 0) {
    const { do: remedy } = errorCatalog.QueueNotManaged;
    const message = `Kueue does not manage ${unmanaged} of ${managed + unmanaged} pods, which start without quota. To do: ${remedy}`;
    return { type, status: "Unknown", reason: "QueueNotManaged", message };
  }
  if (managed === 0) return { type, status: "Unknown", reason: "NoPods", message: "there are no pods" };
  const pods = managed === 1 ? "the pod" : `all ${managed} pods`;
  return { type, status: "True", reason: "Admitted", message: `Kueue has admitted ${pods} to queue ${name}` };
}

const EVICTED = { type: "Evicted", status: "True" };
const WITHOUT_QUOTA = { type: "QuotaReserved", status: "False" };
const NOT_ADMITTED = { type: "Admitted", status: "False" };

function waitReason(workload: QueueWorkload | undefined): string {
  if (workload === undefined) return "Kueue has not created a Workload for the pod yet";
  return (
    reported(workload, WITHOUT_QUOTA) ??
    reported(workload, NOT_ADMITTED) ??
    "Kueue has not evaluated the Workload yet"
  );
}

/** Reason and message of a condition, if it has this status. */
function reported(
  workload: QueueWorkload | undefined,
  { type, status }: { readonly type: string; readonly status: string },
): string | undefined {
  const found = workload?.status?.conditions?.find((one) => one.type === type && one.status === status);
  if (found === undefined) return undefined;
  const { reason = "", message = "" } = found;
  return truncate(message === "" ? reason : `${reason}: ${message}`, MAX_TEXT);
}
