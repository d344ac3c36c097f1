/** The planner of a live service, in two halves with placement between them. Pure. */
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import { FINALIZER_SERVICE, LABEL_REPLICA, LABEL_REVISION } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { sliceName } from "../../../src/api/names.ts";
import { toRevisionData } from "../../../src/api/revision-data.ts";
import { revisionHistoryLimit } from "../../../src/api/to-template.ts";
import type { ControllerRevision, EndpointSlice } from "../../../src/kube/objects.ts";
import { PRIORITIES } from "../../../src/placement/priority.ts";
import type { Demand, Placed, Refusal } from "../../../src/placement/types.ts";
import { UNKNOWN_MEMORY } from "./claim.ts";
import { correctKubeService, correctReplica, correctSlice, guards } from "./corrections.ts";
import { desiredKubeService, desiredReplica, desiredRevision, desiredSlice, mutableSpec } from "./desired.ts";
import type { ServiceObserved } from "./observed.ts";
import { type Resolution, type Resolved, resolveService } from "./resolve.ts";
import {
  ordinalOf,
  planSacrifices,
  planSlots,
  type SlotsInput,
  type SlotsPlan,
  type Wanted,
} from "./slots.ts";
import type { ServiceStep } from "./steps.ts";

/** A service thought through as far as that goes without knowing the other services. */
export interface ServiceDraft {
  readonly observed: ServiceObserved;
  readonly resolution: Resolution;
  readonly slots: SlotsInput;
  readonly slotsPlan: SlotsPlan;
  readonly demands: readonly Demand[];
}

/** Replicas wanted now. */
export function wantedReplicas({ spec }: InferenceService): number {
  return spec.suspend ? 0 : spec.replicas;
}

/** First half: what the service is, and which of its slots want a host. */
export function draftService(
  observed: ServiceObserved,
  displaced: ReadonlySet<string>,
  refusals: readonly Refusal[],
): ServiceDraft {
  const { service } = observed;
  const resolution = resolveService(observed);
  const slots: SlotsInput = {
    want: wantedReplicas(service),
    revision: resolution.at === "resolved" ? resolution.template.revision : undefined,
    replicas: observed.replicas,
    maxSurge: service.spec.rollout.maxSurge,
    maxUnavailable: service.spec.rollout.maxUnavailable,
    displaced,
  };
  const slotsPlan = planSlots(slots);
  const demands =
    resolution.at === "resolved"
      ? slotsPlan.wanted.map((wanted) => demandOf(observed, resolution, wanted, refusals))
      : [];
  return { observed, resolution, slots, slotsPlan, demands };
}

/** Second half: every step, given where placement put this service's demands. */
export function planService(draft: ServiceDraft, placed: readonly Placed[]): ServiceStep[] {
  const { observed, resolution, slotsPlan, slots } = draft;
  const { service } = observed;
  const created = resolution.at === "resolved" ? replicasFor(observed, resolution, placed) : [];
  const found = new Set(placed.map(({ ordinal }) => ordinal));
  const unplaced = new Set(slotsPlan.wanted.map(({ ordinal }) => ordinal).filter((one) => !found.has(one)));
  const removals = [...slotsPlan.removals, ...planSacrifices(slots, unplaced)];
  return [
    ...(isHeld(service) ? [] : [{ do: "addFinalizer", service } as const]),
    ...stepsOfKubeService(observed),
    ...created.map((object): ServiceStep => ({ do: "create", what: "replica", object })),
    ...stepsOfSlices(observed, created),
    ...(resolution.at === "resolved" ? stepsOfRevisions(observed, resolution) : []),
    ...stepsOfMutableSpec(observed, resolution),
    ...removals.map(
      ({ replica, because }): ServiceStep => ({ do: "remove", what: "replica", object: replica, because }),
    ),
  ];
}

function isHeld({ metadata }: InferenceService): boolean {
  return metadata.finalizers?.includes(FINALIZER_SERVICE) === true;
}

function demandOf(
  { service, replicas, model }: ServiceObserved,
  { template, claim }: Resolved,
  { ordinal, why }: Wanted,
  refusals: readonly Refusal[],
): Demand {
  const { metadata, spec } = service;
  const { source, sha256 } = template.model;
  return {
    service: `${metadata.namespace}/${metadata.name}`,
    ordinal,
    priority: PRIORITIES[spec.priority],
    since: Date.parse(metadata.creationTimestamp ?? "") || 0,
    // Where an old revision serves, the new one takes nobody's place.
    mayPreempt: why !== "surge",
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

function limitOf(hardware: Model["spec"]["hardware"]): Pick<Demand, "limit"> {
  const { memoryBudget, memoryFraction } = hardware ?? {};
  const bytes = memoryBudget === undefined ? undefined : parseQuantity(memoryBudget);
  if (bytes !== undefined) return { limit: { of: "bytes", bytes } };
  return memoryFraction === undefined ? {} : { limit: { of: "fraction", fraction: memoryFraction } };
}

function replicasFor(
  observed: ServiceObserved,
  { template, claim }: Resolved,
  placed: readonly Placed[],
): InferenceReplica[] {
  const taken = new Set(observed.replicas.map(({ metadata }) => metadata.name));
  const memory = claim.at === "estimated" ? claim.memory : UNKNOWN_MEMORY;
  return placed.map(({ ordinal, host }) =>
    desiredReplica({ service: observed.service, template, memory, ordinal, host, taken }),
  );
}

function stepsOfKubeService({ service, kubeServices }: ServiceObserved): ServiceStep[] {
  const wanted = desiredKubeService(service);
  const [object] = kubeServices;
  if (object === undefined) return [{ do: "create", what: "kubeService", object: wanted }];
  const operations = correctKubeService(object, wanted);
  if (operations.length === 0) return [];
  return [{ do: "patch", what: "kubeService", object, operations, because: "spec.endpoint changed" }];
}

/** One slice per replica, until the replica is gone: its agent withdraws on it while draining. */
function stepsOfSlices(observed: ServiceObserved, created: readonly InferenceReplica[]): ServiceStep[] {
  const { service, replicas, slices, hosts } = observed;
  const byName = new Map(slices.map((slice) => [slice.metadata.name, slice]));
  const steps: ServiceStep[] = [];
  for (const replica of [...replicas, ...created]) {
    const wanted = desiredSlice(replica, service, hosts.get(replica.spec.template.hostName));
    const slice = byName.get(sliceName(replica.metadata.name));
    byName.delete(sliceName(replica.metadata.name));
    const isLeaving = replica.metadata.deletionTimestamp !== undefined;
    if (slice === undefined && !isLeaving) steps.push({ do: "create", what: "slice", object: wanted });
    if (slice !== undefined && !isLeaving) steps.push(...correctionOf(slice, wanted));
  }
  for (const object of byName.values()) {
    const because = `replica ${object.metadata.labels?.[LABEL_REPLICA] ?? object.metadata.name} is gone`;
    steps.push({ do: "remove", what: "slice", object, because });
  }
  return steps;
}

function correctionOf(slice: EndpointSlice, wanted: EndpointSlice): ServiceStep[] {
  if (slice.addressType !== wanted.addressType) {
    return [{ do: "remove", what: "slice", object: slice, because: "the host's address family changed" }];
  }
  const operations = correctSlice(slice, wanted);
  return operations.length === 0
    ? []
    : [{ do: "patch", what: "slice", object: slice, operations, because: "the host's addresses changed" }];
}

function stepsOfRevisions(
  { service, revisions, replicas }: ServiceObserved,
  { template, model }: Resolved,
): ServiceStep[] {
  const newest = Math.max(0, ...revisions.map(({ revision }) => revision));
  const now = revisions.find((one) => hashOf(one) === template.revision);
  const inUse = new Set([template.revision, ...replicas.map(({ spec }) => spec.template.revision)]);
  const steps: ServiceStep[] = [];
  if (now === undefined) {
    const object = desiredRevision(service, toRevisionData(service, template, model), newest + 1);
    steps.push({ do: "create", what: "revision", object });
  } else if (now.revision < newest) {
    const operations = [
      ...guards(now.metadata),
      { op: "add" as const, path: "/revision", value: newest + 1 },
    ];
    steps.push({ do: "patch", what: "revision", object: now, operations, because: "it is in use again" });
  }
  const old = revisions.filter((one) => !inUse.has(hashOf(one))).sort((a, b) => b.revision - a.revision);
  const because = "more old revisions than revisionHistoryLimit";
  for (const object of old.slice(revisionHistoryLimit(service.spec))) {
    steps.push({ do: "remove", what: "revision", object, because });
  }
  return steps;
}

function hashOf({ metadata }: ControllerRevision): string {
  return metadata.labels?.[LABEL_REVISION] ?? "";
}

function stepsOfMutableSpec({ service, replicas }: ServiceObserved, resolution: Resolution): ServiceStep[] {
  return replicas
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap((object): ServiceStep[] => {
      const memory = memoryOf(object, resolution);
      const operations = correctReplica(object, {
        ...mutableSpec(service),
        ...(memory === undefined ? {} : { memory }),
      });
      const because = "fields changed that need no restart";
      return operations.length === 0 ? [] : [{ do: "patch", what: "replica", object, operations, because }];
    });
}

/** A better estimate for the same template is passed on; an unknown one replaces nothing. */
function memoryOf(
  { spec }: InferenceReplica,
  resolution: Resolution,
): InferenceReplica["spec"]["memory"] | undefined {
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") return undefined;
  return spec.template.revision === resolution.template.revision ? resolution.claim.memory : undefined;
}
