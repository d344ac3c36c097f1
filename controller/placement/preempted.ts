/** Replicas that make way for a higher priority: told, drained, then deleted; and what their service remembers of it. Pure. */
import { ANNOTATION_PREEMPTED_BY } from "../../src/api/group.ts";
import { DRAIN_PREEMPTED, type InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";
import { type Demand, type Preemption, serviceOfSlot } from "../../src/placement/types.ts";
import { guards } from "../service/plan/corrections.ts";
import type { ServiceStep } from "../service/plan/steps.ts";

/** What `status.placement.preempted` tells of one slot. */
export type PreemptedSlot = NonNullable<
  NonNullable<NonNullable<InferenceService["status"]>["placement"]>["preempted"]
>[number];

export function isPreempted({ spec }: InferenceReplica): boolean {
  return spec.drain?.reason === DRAIN_PREEMPTED;
}

/** Orders become drains; what has been drained is deleted, and only then is its memory given to the other. */
export function planPreemptions(
  replicas: readonly InferenceReplica[],
  orders: readonly Preemption[],
): readonly ServiceStep[] {
  const slots = new Map(orders.map((order) => [order.replica, order.for]));
  const steps: ServiceStep[] = [];
  for (const object of replicas) {
    const { namespace, name, deletionTimestamp } = object.metadata;
    if (deletionTimestamp !== undefined) continue;
    const slot = slots.get(`${namespace}/${name}`);
    const taker = takerOf(object) ?? slot;
    const because = `${taker === undefined ? "another service" : serviceOfSlot(taker)} has a higher priority`;
    if (isPreempted(object)) {
      if (object.status?.phase === "Stopped") steps.push({ do: "remove", what: "replica", object, because });
    } else if (slot !== undefined) {
      steps.push({ do: "patch", what: "replica", object, operations: drainFor(object, slot), because });
    }
  }
  return steps;
}

/** For each slot of the service that made way and has no host yet: to whom. */
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

/** Demands with what became of their slots. */
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
    ...guards(metadata),
    ...(metadata.annotations === undefined
      ? [{ op: "add" as const, path: "/metadata/annotations", value: {} }]
      : []),
    { op: "add", path, value: slot },
    { op: "add", path: "/spec/drain", value: { reason: DRAIN_PREEMPTED } },
  ];
}
