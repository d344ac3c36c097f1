/** The memory that a replica holds on its host, and a pod on its node. Pure. */

import { parseQuantity } from "../../src/api/fields/quantity.ts";
import { LABEL_SERVICE } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { claimOfReplica } from "../../src/capacity/placement/claims.ts";
import { hasPodEnded, type Pod } from "../../src/kube/workload-objects.ts";
import { isReady } from "../../src/verdicts/pod.ts";
import { phaseText } from "../../src/verdicts/replica.ts";
import { GPU_RESOURCES } from "../scoring/node.ts";
import type { Density, HeldMemory } from "./density.ts";

/** Part of the budget that a replica or pod claims: where pods use whole GPUs, the budget is their memory. Its requests while that is unknown. */
export function claimedBytes(
  { bytes, gpus }: Pick<HeldMemory, "bytes" | "gpus">,
  { wholeGpus, budgetBytes }: { readonly wholeGpus: number; readonly budgetBytes: number },
): number {
  return wholeGpus > 0 && budgetBytes > 0 ? (budgetBytes / wholeGpus) * gpus : bytes;
}

/** The larger of the claim and the measured use. */
export function memoryOfReplica(replica: InferenceReplica): HeldMemory {
  const { bytes, load } = claimOfReplica(replica, undefined, { wallMs: 0, monotonicMs: 0 });
  return {
    namespace: replica.metadata.namespace ?? "default",
    service: replica.spec.template.serviceName,
    phase: phaseText(replica),
    bytes,
    gpus: 0,
    load,
  };
}

/** The requests of its containers. */
export function memoryOfPod({ metadata, spec, status }: Pod): HeldMemory {
  const requested = (resource: string) =>
    spec.containers.reduce((sum, { resources }) => {
      const quantity = resources?.requests?.[resource] ?? resources?.limits?.[resource];
      return sum + (quantity === undefined ? 0 : (parseQuantity(quantity) ?? 0));
    }, 0);
  return {
    namespace: metadata.namespace ?? "default",
    service: metadata.labels?.[LABEL_SERVICE] ?? metadata.name,
    phase: isReady({ status }) ? "Ready" : (status?.phase ?? "Pending"),
    bytes: requested("memory"),
    gpus: GPU_RESOURCES.reduce((sum, resource) => sum + requested(resource), 0),
  };
}

/** `replica` is undefined if it was deleted. */
export function noteReplica(density: Density, key: string, replica: InferenceReplica | undefined): void {
  const on = replica && ({ kind: "Host", name: replica.spec.template.hostName } as const);
  density.setHeld(key, on, replica && memoryOfReplica(replica));
}

/** `pod` is undefined if it was deleted. One that has finished holds nothing. */
export function notePod(density: Density, key: string, pod: Pod | undefined): void {
  const name = pod === undefined || hasPodEnded(pod) ? undefined : pod.spec.nodeName;
  const on = name === undefined ? undefined : ({ kind: "Node", name } as const);
  density.setHeld(`pod ${key}`, on, pod && memoryOfPod(pod));
}
