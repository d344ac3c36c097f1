/** Plans preemptions: replicas are marked, drained and then deleted, and recorded in the service's status. Pure. */

import { ANNOTATION_PREEMPTED_BY } from "../../../src/api/group.ts";
import { DRAIN_PREEMPTED, type InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { keyOf } from "../../../src/api/names.ts";
import { type Demand, type Preemption, serviceOfSlot } from "../../../src/capacity/placement/types.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import { escapeJsonPointer, versionGuards } from "../owned/corrections.ts";
import type { ServiceStep } from "../owned/steps.ts";

/** One slot in `status.placement.preempted`. */
export type PreemptedSlot = NonNullable<
  NonNullable<NonNullable<InferenceService["status"]>["placement"]>["preempted"]
>[number];

export function isPreempted({ spec }: InferenceReplica): boolean {
  return spec.drain?.reason === DRAIN_PREEMPTED;
}

/** A preempted replica is drained, then deleted; only then does the preemptor get its memory. */
export function planPreemptions(
  replicas: readonly InferenceReplica[],
  orders: readonly Preemption[],
): readonly ServiceStep[] {
  const slots = new Map(orders.map((order) => [order.replica, order.for]));
  const steps: ServiceStep[] = [];
  for (const object of replicas) {
    if (isBeingDeleted(object)) continue;
    const slot = slots.get(keyOf(object.metadata));
    const preemptor = preemptorOf(object) ?? slot;
    const because = `preempted by ${preemptor === undefined ? "another service" : serviceOfSlot(preemptor)}`;
    if (isPreempted(object)) {
      if (object.status?.phase === "Stopped") steps.push({ do: "remove", what: "replicas", object, because });
    } else if (slot !== undefined) {
      steps.push({ do: "patch", what: "replicas", object, operations: drainFor(object, slot), because });
    }
  }
  return steps;
}

/** The preempted slots that have no host yet, with the preempting service. */
export function preemptedSlots(
  replicas: readonly InferenceReplica[],
  status: InferenceService["status"],
  ordinalOf: (replica: InferenceReplica) => number,
): ReadonlyMap<number, PreemptedSlot> {
  const slots = new Map((status?.placement?.preempted ?? []).map((one) => [one.slot, one]));
  for (const replica of replicas) {
    const preemptor = preemptorOf(replica);
    const slot = ordinalOf(replica);
    if (preemptor === undefined || !isPreempted(replica) || !Number.isFinite(slot)) continue;
    slots.set(slot, { slot, by: serviceOfSlot(preemptor), host: replica.spec.template.hostName });
  }
  return slots;
}

/** Adds the preempting service to the demands of preempted slots. */
export function withPreempted(
  demands: readonly Demand[],
  slots: ReadonlyMap<number, PreemptedSlot>,
): readonly Demand[] {
  return demands.map((demand) => {
    const slot = slots.get(demand.ordinal);
    return slot === undefined ? demand : { ...demand, preempted: { by: slot.by, host: slot.host } };
  });
}

function preemptorOf({ metadata }: InferenceReplica): string | undefined {
  return metadata.annotations?.[ANNOTATION_PREEMPTED_BY];
}

function drainFor({ metadata }: InferenceReplica, slot: string): JsonPatchOp[] {
  const path = `/metadata/annotations/${escapeJsonPointer(ANNOTATION_PREEMPTED_BY)}`;
  return [
    ...versionGuards(metadata),
    ...(metadata.annotations === undefined
      ? [{ op: "add" as const, path: "/metadata/annotations", value: {} }]
      : []),
    { op: "add", path, value: slot },
    { op: "add", path: "/spec/drain", value: { reason: DRAIN_PREEMPTED } },
  ];
}
