/** Plans a service on hosts in two steps: `draftService` before placement, and `planService` after it. Pure. */

import { LABEL_REPLICA } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica, ReplicaModel } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Model } from "../../../src/api/model.ts";
import { sliceName } from "../../../src/api/names.ts";
import { memoryOn, UNKNOWN_MEMORY } from "../../../src/capacity/claim.ts";
import { hostBudget } from "../../../src/capacity/placement/budget.ts";
import type { Demand, HostRefusal, Placed } from "../../../src/capacity/placement/types.ts";
import { type Resolution, type Resolved, resolveService } from "../../../src/capacity/resolve.ts";
import { parseRevisionData, toRevisionData } from "../../../src/capacity/revision-data.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import { defined } from "../../../src/util/defined.ts";
import {
  correctFamily,
  correctLabels,
  escapeJsonPointer,
  isSame,
  withVersionGuards,
} from "../../frame/owned/corrections.ts";
import { stepsOfKubeService } from "../../frame/owned/kube-service.ts";
import { stepsOfRevisions } from "../../frame/owned/revisions.ts";
import { type ServiceStep, stepsOfFinalizer } from "../../frame/owned/steps.ts";
import { rolloutLimits } from "../rollout/limits.ts";
import { planHostsRollout, planRemovalsFirst } from "../rollout/rollout.ts";
import { isServingReplica, ordinalOf } from "../rollout/slots.ts";
import type { DesiredSlot, HostsRolloutInput, RolloutPlan } from "../rollout/types.ts";
import { slotDemand } from "./demand.ts";
import { clientsOf, desiredReplica, desiredSlice, mutableSpec, placementReasonOf } from "./desired.ts";
import type { ServiceObserved } from "./observed.ts";
import { stepsOfRelaySlice } from "./relay-slice.ts";
import { type Runnable, runnablesOf } from "./templates.ts";

/** Findings about replicas from earlier passes. */
export interface RolloutFindings {
  /** Names of replicas that their hosts cannot run, and the hosts that refused them. */
  readonly displaced: ReadonlySet<string>;
  readonly refusals: readonly HostRefusal[];
  /** Names of replicas that fail to become Ready, with the reason, and of those that crashed recently. */
  readonly failing: ReadonlyMap<string, string>;
  readonly unsettled: ReadonlySet<string>;
  /** Hosts that replicas leave for better ones, and hosts that are no better, with the reason. */
  readonly leaving?: Iterable<string>;
  readonly notTo?: readonly HostRefusal[];
}

export const NO_ROLLOUT_FINDINGS: RolloutFindings = {
  displaced: new Set(),
  refusals: [],
  failing: new Map(),
  unsettled: new Set(),
};

/** The plan of a service as far as it does not depend on other services. */
export interface ServiceDraft {
  readonly observed: ServiceObserved;
  readonly resolution: Resolution;
  readonly findings: RolloutFindings;
  /** Templates for new replicas, by revision. */
  readonly runnables: ReadonlyMap<string, Runnable>;
  readonly input: HostsRolloutInput;
  readonly rollout: RolloutPlan;
  readonly demands: readonly Demand[];
  /** Ordinals of serving slots that move only to a better host, and stay if there is none. */
  readonly mayStay: ReadonlySet<number>;
}

/** Desired number of replicas. */
export function desiredReplicas({ spec }: InferenceService): number {
  return spec.suspend ? 0 : spec.replicas;
}

/** First step: resolves the service, and finds the slots that need a host. */
export function draftService(
  observed: ServiceObserved,
  findings: RolloutFindings = NO_ROLLOUT_FINDINGS,
): ServiceDraft {
  const { service, hosts, flavor, blocked } = observed;
  const params = flavor?.on === "Hosts" ? flavor.flavor.params : undefined;
  const resolution =
    blocked ??
    resolveService({
      ...observed,
      hosts: hosts.values(),
      earlier: earlierModels(observed),
      params,
      transport: observed.sealing.byDefault,
    });
  const { displaced, failing, unsettled, refusals } = findings;
  const runnables = runnablesOf(observed, resolution, failing.size > 0);
  const desired = desiredReplicas(service);
  const input: HostsRolloutInput = {
    displaced,
    failing,
    unsettled,
    desired,
    revision: resolution.at === "resolved" ? resolution.template.revision : undefined,
    replicas: observed.replicas,
    ...rolloutLimits(service.spec.rollout, desired),
    draining: new Set([
      ...[...hosts.values()].filter(({ spec }) => spec.drain).map(({ metadata }) => metadata.name),
      ...(findings.leaving ?? []),
    ]),
    fallback: service.status?.currentRevision,
    known: new Set(runnables.keys()),
  };
  const rollout = planHostsRollout(input);
  const mayStay = new Set(
    rollout.desiredSlots.filter((one) => mayStayOnHost(observed, one)).map(({ ordinal }) => ordinal),
  );
  const demands = rollout.desiredSlots.flatMap((slot) => {
    const runnable = runnables.get(slot.revision);
    const needsBetterHost = mayStay.has(slot.ordinal) && slot.why === "move";
    const refused = needsBetterHost ? [...refusals, ...(findings.notTo ?? [])] : refusals;
    return runnable === undefined ? [] : [slotDemand(observed, runnable, slot, refused)];
  });
  return { observed, resolution, findings, runnables, input, rollout, demands, mayStay };
}

/** True if the slot serves and its host is not being drained, so only live eviction moves it. */
function mayStayOnHost({ replicas, hosts }: ServiceObserved, { ordinal, why }: DesiredSlot): boolean {
  const own = replicas.filter((one) => ordinalOf(one) === ordinal);
  const isDrained = own.some(({ spec }) => hosts.get(spec.template.hostName)?.spec.drain === true);
  return why === "move" && !isDrained && own.some(isServingReplica);
}

/** Weights of earlier revisions, only if spec.modelRevision may select one, because parsing them is expensive. */
function earlierModels({ service, revisions }: ServiceObserved): readonly ReplicaModel[] {
  if (service.spec.modelRevision === undefined) return [];
  return revisions.flatMap(({ data }) => parseRevisionData(data)?.template?.model ?? []);
}

/** True if a demand would fit on some host if these replicas were removed. */
export type HasRoom = (demand: Demand, without: readonly InferenceReplica[]) => boolean;

/** Second step: plans all steps, given the hosts that placement chose. */
export function planService(draft: ServiceDraft, placed: readonly Placed[], hasRoom: HasRoom): ServiceStep[] {
  const { observed, resolution, rollout } = draft;
  const { service } = observed;
  const created = replicasFor(draft, placed);
  const removals = [...rollout.removals, ...removalsToMakeRoom(draft, placed, hasRoom)];
  return [
    ...stepsOfFinalizer(service),
    ...stepsOfKubeService(service, observed.model, observed.kubeServices[0]),
    ...created.map(
      (object): ServiceStep => ({
        do: "create",
        what: "replicas",
        object,
        because: placementReasonOf(object),
      }),
    ),
    ...stepsOfSlices(observed, created),
    ...stepsOfRelaySlice(observed),
    ...(resolution.at === "resolved" ? revisionSteps(observed, resolution) : []),
    ...stepsOfMutableSpec(observed, resolution),
    ...removals.map(
      ({ replica, because }): ServiceStep => ({ do: "remove", what: "replicas", object: replica, because }),
    ),
  ];
}

function revisionSteps(observed: ServiceObserved, resolved: Resolved): ServiceStep[] {
  const { service, revisions, replicas, backend } = observed;
  const { template, model } = resolved;
  return stepsOfRevisions({
    service,
    side: "Hosts",
    revisions,
    hash: template.revision,
    backend,
    data: () => toRevisionData({ service, model, backend }, template),
    running: replicas.map(({ spec }) => spec.template.revision),
  });
}

function replicasFor(
  { observed, rollout, runnables }: ServiceDraft,
  placed: readonly Placed[],
): InferenceReplica[] {
  const { service, model, backend, sealing } = observed;
  const taken = new Set(observed.replicas.map(({ metadata }) => metadata.name));
  return placed.flatMap((one) => {
    const { ordinal } = one;
    const revision = rollout.desiredSlots.find((slot) => slot.ordinal === ordinal)?.revision;
    const runnable = runnables.get(revision ?? "");
    if (runnable === undefined) return [];
    const { template, claim } = runnable;
    const memory = claim.at === "estimated" ? memoryOn(claim, observed.hosts.get(one.host)) : UNKNOWN_MEMORY;
    const parts = { service, model, backend, template, memory, sealing };
    return [desiredReplica({ ...parts, ordinal, placed: one, taken })];
  });
}

function removalsToMakeRoom(
  draft: ServiceDraft,
  placed: readonly Placed[],
  hasRoom: HasRoom,
): RolloutPlan["removals"] {
  const { observed, input, rollout, runnables, findings } = draft;
  const unplaced = new Set(rollout.desiredSlots.map(({ ordinal }) => ordinal));
  for (const { ordinal } of placed) unplaced.delete(ordinal);
  const newest = runnables.get(input.revision ?? "");
  if (newest === undefined) return [];
  return planRemovalsFirst(input, rollout, unplaced, (ordinal, without) => {
    const slot = { ordinal, why: "surge" } as const;
    return hasRoom(slotDemand(observed, newest, slot, findings.refusals), without);
  });
}

/** One slice per replica until the replica no longer exists, because its agent withdraws endpoints while it drains. */
function stepsOfSlices(observed: ServiceObserved, created: readonly InferenceReplica[]): ServiceStep[] {
  const { service, replicas, slices, hosts } = observed;
  const byName = new Map(slices.map((slice) => [slice.metadata.name, slice]));
  const steps: ServiceStep[] = [];
  const because = "its agent publishes the endpoint of the replica there";
  for (const replica of [...replicas, ...created]) {
    const slice = byName.get(sliceName(replica.metadata.name));
    byName.delete(sliceName(replica.metadata.name));
    if (isBeingDeleted(replica)) continue;
    const desired = desiredSlice(replica, service, hosts.get(replica.spec.template.hostName));
    if (slice === undefined) steps.push({ do: "create", what: "slices", object: desired, because });
    else steps.push(...correctionOf(slice, desired));
  }
  for (const object of byName.values()) {
    const because = `replica ${object.metadata.labels?.[LABEL_REPLICA] ?? object.metadata.name} is gone`;
    steps.push({ do: "remove", what: "slices", object, because });
  }
  return steps;
}

function correctionOf(slice: EndpointSlice, desired: EndpointSlice): ServiceStep[] {
  if (slice.addressType !== desired.addressType) {
    return [{ do: "remove", what: "slices", object: slice, because: "the host's address family changed" }];
  }
  const operations = correctSlice(slice, desired);
  return operations.length === 0
    ? []
    : [
        {
          do: "patch",
          what: "slices",
          object: slice,
          operations,
          because: "the host's addresses or fingerprints changed",
        },
      ];
}

function stepsOfMutableSpec(
  { service, model, backend, replicas, hosts, sealing }: ServiceObserved,
  resolution: Resolution,
): ServiceStep[] {
  return replicas
    .filter((replica) => !isBeingDeleted(replica))
    .flatMap((object): ServiceStep[] => {
      const memory = memoryOf(object, resolution, hosts.get(object.spec.template.hostName));
      const clientFingerprints = clientsOf(object.spec.template, sealing);
      const desired = defined({ ...mutableSpec(service, backend), memory, clientFingerprints });
      const operations = correctReplica(object, desired, model);
      const because = "only fields that need no restart have changed";
      return operations.length === 0 ? [] : [{ do: "patch", what: "replicas", object, operations, because }];
    });
}

/** A new estimate for the same template; undefined if there is none, so the current one stays. */
function memoryOf(
  { spec, status }: InferenceReplica,
  resolution: Resolution,
  host: Host | undefined,
): InferenceReplica["spec"]["memory"] | undefined {
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") return undefined;
  if (spec.template.revision !== resolution.template.revision) return undefined;
  const memory = memoryOn(resolution.claim, host);
  // A claim that the agent can never admit would keep all other replicas away from the host.
  return status?.memory === undefined && exceeds(memory.claimBytes, host) ? undefined : memory;
}

function exceeds(claimBytes: number, host: Host | undefined): boolean {
  const budget = host === undefined ? undefined : hostBudget(host);
  return budget?.known === true && claimBytes > budget.bytes;
}

/** Empty if nothing differs. */
function correctReplica(
  { metadata, spec }: InferenceReplica,
  desired: Partial<InferenceReplica["spec"]>,
  model: Model | undefined,
): JsonPatchOp[] {
  const changes = correctFamily(metadata, model);
  for (const [field, value] of Object.entries(desired)) {
    const now = spec[field as keyof typeof spec];
    if (!isSame(now, value)) changes.push({ op: "add", path: `/spec/${field}`, value });
  }
  return withVersionGuards(metadata, changes);
}

/** Corrects labels, the allowed addresses and the fingerprints. The address family of a slice cannot change. */
function correctSlice({ metadata }: EndpointSlice, desired: EndpointSlice): JsonPatchOp[] {
  const changes = [...correctLabels(metadata, desired.metadata)];
  const wanted = Object.entries(desired.metadata.annotations ?? {});
  const differing = wanted.filter(([name, value]) => metadata.annotations?.[name] !== value);
  if (differing.length > 0 && metadata.annotations === undefined)
    changes.push({ op: "add", path: "/metadata/annotations", value: {} });
  for (const [name, value] of differing)
    changes.push({ op: "add", path: `/metadata/annotations/${escapeJsonPointer(name)}`, value });
  return withVersionGuards(metadata, changes);
}
