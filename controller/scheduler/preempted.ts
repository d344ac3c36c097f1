/** Preempted replicas: marked, drained, then deleted; and their record in the service's status. Pure. */
import { ANNOTATION_PREEMPTED_BY } from "../../src/api/group.ts";
import { DRAIN_PREEMPTED, type InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { keyOf } from "../../src/api/names.ts";
import { type Demand, type Preemption, serviceOfSlot } from "../../src/capacity/placement/types.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";
import { versionGuards } from "../service/owned/corrections.ts";
import type { ServiceStep } from "../service/owned/steps.ts";

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
    const { namespace, name, deletionTimestamp } = object.metadata;
    if (deletionTimestamp !== undefined) continue;
    const slot = slots.get(keyOf({ namespace, name }));
    const taker = takerOf(object) ?? slot;
    const because = `preempted by ${taker === undefined ? "another service" : serviceOfSlot(taker)}`;
    if (isPreempted(object)) {
      if (object.status?.phase === "Stopped") steps.push({ do: "remove", what: "replicas", object, because });
    } else if (slot !== undefined) {
      steps.push({ do: "patch", what: "replicas", object, operations: drainFor(object, slot), because });
    }
  }
  return steps;
}

/** Which service preempted each slot that has no host yet. */
export function preemptedSlots(
  replicas: readonly InferenceReplica[],
  status: InferenceService["status"],
  ordinalOf: (replica: InferenceReplica) => number,
): ReadonlyMap<number, PreemptedSlot> {
  const slots = new Map((status?.placement?.preempted ?? []).map((one) => [one.slot, one]));
  for (const replica of replicas) {
    const taker = takerOf(replica);
    const slot = ordinalOf(replica);
    if (taker === undefined || !isPreempted(replica) || !Number.isFinite(slot)) continue;
    slots.set(slot, { slot, by: serviceOfSlot(taker), host: replica.spec.template.hostName });
  }
  return slots;
}

/** Demands of preempted slots, with who preempted them. */
export function withPreempted(
  demands: readonly Demand[],
  slots: ReadonlyMap<number, PreemptedSlot>,
): readonly Demand[] {
  return demands.map((demand) => {
    const slot = slots.get(demand.ordinal);
    return slot === undefined ? demand : { ...demand, preempted: { by: slot.by, host: slot.host } };
  });
}

function takerOf({ metadata }: InferenceReplica): string | undefined {
  return metadata.annotations?.[ANNOTATION_PREEMPTED_BY];
}

function drainFor({ metadata }: InferenceReplica, slot: string): JsonPatchOp[] {
  const path = `/metadata/annotations/${ANNOTATION_PREEMPTED_BY.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return [
    ...versionGuards(metadata),
    ...(metadata.annotations === undefined
      ? [{ op: "add" as const, path: "/metadata/annotations", value: {} }]
      : []),
    { op: "add", path, value: slot },
    { op: "add", path: "/spec/drain", value: { reason: DRAIN_PREEMPTED } },
  ];
}
