/** What a slot asks of placement. Pure. */
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Model } from "../../../src/api/model.ts";
import { PRIORITIES } from "../../../src/placement/priority.ts";
import type { Demand, Refusal } from "../../../src/placement/types.ts";
import { isReady, ordinalOf } from "../rollout/slots.ts";
import type { WantReason } from "../rollout/types.ts";
import type { ServiceObserved } from "./observed.ts";
import type { Runnable } from "./templates.ts";

/** A slot that wants a host, for a replica of this template. */
export interface Asked {
  readonly ordinal: number;
  readonly why: WantReason;
}

export function demandOf(
  { service, replicas, model }: ServiceObserved,
  { template, claim }: Runnable,
  { ordinal, why }: Asked,
  refusals: readonly Refusal[],
): Demand {
  const { metadata, spec } = service;
  const { source, sha256 } = template.model;
  return {
    service: `${metadata.namespace}/${metadata.name}`,
    ordinal,
    priority: PRIORITIES[spec.priority],
    since: Date.parse(metadata.creationTimestamp ?? "") || 0,
    // Where another serves the slot, or a bad change is the trouble, nobody else's place is taken.
    mayPreempt: (why === "fill" || why === "replace") && !replicas.some((one) => servesSlot(one, ordinal)),
    ...limitOf(model?.spec.hardware),
    runtime: template.runtime,
    memory: claim.at === "estimated" ? { known: true, bytes: claim.memory.claimBytes } : { known: false },
    weights: sha256 === undefined ? { source } : { source, sha256 },
    predecessors: replicas
      .filter((replica) => ordinalOf(replica) === ordinal)
      .map((replica) => ({
        replica: `${replica.metadata.namespace}/${replica.metadata.name}`,
        host: replica.spec.template.hostName,
        sharesWeights: replica.spec.template.model.source === source,
      })),
    choice: {
      hosts: spec.placement.hosts ?? [],
      hostSelector: spec.placement.hostSelector,
      spread: spec.placement.spread,
    },
    refusals,
  };
}

function servesSlot(replica: InferenceReplica, ordinal: number): boolean {
  return ordinalOf(replica) === ordinal && isReady(replica);
}

function limitOf(hardware: Model["spec"]["hardware"]): Pick<Demand, "limit"> {
  const { memoryBudget, memoryFraction } = hardware ?? {};
  const bytes = memoryBudget === undefined ? undefined : parseQuantity(memoryBudget);
  if (bytes !== undefined) return { limit: { of: "bytes", bytes } };
  return memoryFraction === undefined ? {} : { limit: { of: "fraction", fraction: memoryFraction } };
}
