/** The planner of a live service, in two halves with placement between them. Pure. */
import { FINALIZER_SERVICE, LABEL_REPLICA } from "../../../../src/api/group.ts";
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceReplica, ReplicaModel } from "../../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import { sliceName } from "../../../../src/api/names.ts";
import { memoryOn, UNKNOWN_MEMORY } from "../../../../src/capacity/claim.ts";
import { hostBudget } from "../../../../src/capacity/placement/budget.ts";
import type { Demand, HostRefusal, Placed } from "../../../../src/capacity/placement/types.ts";
import { type Resolution, type Resolved, resolveService } from "../../../../src/capacity/resolve.ts";
import { parseRevisionData, toRevisionData } from "../../../../src/capacity/revision-data.ts";
import type { EndpointSlice } from "../../../../src/kube/objects.ts";
import { stepsOfKubeService } from "../../owned/kube-service.ts";
import { stepsOfRevisions } from "../../owned/revisions.ts";
import type { ServiceStep } from "../../owned/steps.ts";
import { rolloutLimits } from "../rollout/limits.ts";
import { planHostsRollout, planRemovalsFirst } from "../rollout/rollout.ts";
import { isServingReplica, ordinalOf } from "../rollout/slots.ts";
import type { DesiredSlot, HostsRolloutInput, RolloutPlan } from "../rollout/types.ts";
import { correctReplica, correctSlice } from "./corrections.ts";
import { slotDemand } from "./demand.ts";
import { desiredReplica, desiredSlice, mutableSpec } from "./desired.ts";
import type { ServiceObserved } from "./observed.ts";
import { type Runnable, runnablesOf } from "./templates.ts";

/** What the passes learned about the replicas over time. */
export interface RolloutFindings {
  /** Names of those that their hosts cannot run, and the hosts that said so. */
  readonly displaced: ReadonlySet<string>;
  readonly refusals: readonly HostRefusal[];
  /** Names of those that do not become Ready, with why, and of those that are not trusted yet. */
  readonly failing: ReadonlyMap<string, string>;
  readonly unsettled: ReadonlySet<string>;
  /** Hosts that its replicas leave for better ones, and the hosts to which none of those goes, with why. */
  readonly leaving?: Iterable<string>;
  readonly notTo?: readonly HostRefusal[];
}

export const NO_ROLLOUT_FINDINGS: RolloutFindings = {
  displaced: new Set(),
  refusals: [],
  failing: new Map(),
  unsettled: new Set(),
};

/** A service planned as far as possible without knowing the other services. */
export interface ServiceDraft {
  readonly observed: ServiceObserved;
  readonly resolution: Resolution;
  readonly findings: RolloutFindings;
  /** By revision: what replicas can be made of. */
  readonly runnables: ReadonlyMap<string, Runnable>;
  readonly input: HostsRolloutInput;
  readonly rollout: RolloutPlan;
  readonly demands: readonly Demand[];
  /** Ordinals of slots that serve and move only for a better host: without one, they stay. */
  readonly mayStay: ReadonlySet<number>;
}

/** Replicas wanted now. */
export function wantedReplicas({ spec }: InferenceService): number {
  return spec.suspend ? 0 : spec.replicas;
}

/** First half: what the service is, and which of its slots want a host. */
export function draftService(
  observed: ServiceObserved,
  findings: RolloutFindings = NO_ROLLOUT_FINDINGS,
): ServiceDraft {
  const { service, hosts } = observed;
  const resolution = resolveService({ ...observed, hosts: hosts.values(), earlier: keptModels(observed) });
  const { displaced, failing, unsettled, refusals } = findings;
  const runnables = runnablesOf(observed, resolution, failing.size > 0);
  const want = wantedReplicas(service);
  const input: HostsRolloutInput = {
    displaced,
    failing,
    unsettled,
    want,
    revision: resolution.at === "resolved" ? resolution.template.revision : undefined,
    replicas: observed.replicas,
    ...rolloutLimits(service.spec.rollout, want),
    draining: new Set([
      ...[...hosts.values()].filter(({ spec }) => spec.drain).map(({ metadata }) => metadata.name),
      ...(findings.leaving ?? []),
    ]),
    fallback: service.status?.currentRevision,
    known: new Set(runnables.keys()),
  };
  const rollout = planHostsRollout(input);
  const mayStay = new Set(
    rollout.wanted.filter((one) => mayStayWhereItIs(observed, one)).map(({ ordinal }) => ordinal),
  );
  const demands = rollout.wanted.flatMap((wanted) => {
    const runnable = runnables.get(wanted.revision);
    const isBetter = mayStay.has(wanted.ordinal) && wanted.why === "move";
    const refused = isBetter ? [...refusals, ...(findings.notTo ?? [])] : refusals;
    return runnable === undefined ? [] : [slotDemand(observed, runnable, wanted, refused)];
  });
  return { observed, resolution, findings, runnables, input, rollout, demands, mayStay };
}

/** It is on no host that is being drained, so live eviction moves it. */
function mayStayWhereItIs({ replicas, hosts }: ServiceObserved, { ordinal, why }: DesiredSlot): boolean {
  const here = replicas.filter((one) => ordinalOf(one) === ordinal);
  const isDrained = here.some(({ spec }) => hosts.get(spec.template.hostName)?.spec.drain === true);
  return why === "move" && !isDrained && here.some(isServingReplica);
}

/** Weights of the kept revisions. Only on request: reading them is expensive. */
function keptModels({ service, revisions }: ServiceObserved): readonly ReplicaModel[] {
  if (service.spec.modelRevision === undefined) return [];
  return revisions.flatMap(({ data }) => parseRevisionData(data)?.template?.model ?? []);
}

/** Would a demand find a host once these replicas were gone? */
export type HasRoom = (demand: Demand, without: readonly InferenceReplica[]) => boolean;

/** Second half: every step, given where placement put this service's demands. */
export function planService(draft: ServiceDraft, placed: readonly Placed[], hasRoom: HasRoom): ServiceStep[] {
  const { observed, resolution, rollout } = draft;
  const { service } = observed;
  const created = replicasFor(draft, placed);
  const removals = [...rollout.removals, ...sacrificesOf(draft, placed, hasRoom)];
  return [
    ...(isHeld(service) ? [] : [{ do: "addFinalizer", service } as const]),
    ...stepsOfKubeService(service, observed.kubeServices[0]),
    ...created.map((object): ServiceStep => ({ do: "create", what: "replicas", object })),
    ...stepsOfSlices(observed, created),
    ...(resolution.at === "resolved" ? revisionSteps(observed, resolution) : []),
    ...stepsOfMutableSpec(observed, resolution),
    ...removals.map(
      ({ replica, because }): ServiceStep => ({ do: "remove", what: "replicas", object: replica, because }),
    ),
  ];
}

function revisionSteps({ service, revisions, replicas }: ServiceObserved, resolved: Resolved): ServiceStep[] {
  const { template, model } = resolved;
  return stepsOfRevisions({
    service,
    revisions,
    hash: template.revision,
    data: () => toRevisionData(service, template, model),
    running: replicas.map(({ spec }) => spec.template.revision),
  });
}

function isHeld({ metadata }: InferenceService): boolean {
  return metadata.finalizers?.includes(FINALIZER_SERVICE) === true;
}

function replicasFor(
  { observed, rollout, runnables }: ServiceDraft,
  placed: readonly Placed[],
): InferenceReplica[] {
  const taken = new Set(observed.replicas.map(({ metadata }) => metadata.name));
  return placed.flatMap((one) => {
    const { ordinal } = one;
    const revision = rollout.wanted.find((wanted) => wanted.ordinal === ordinal)?.revision;
    const runnable = runnables.get(revision ?? "");
    if (runnable === undefined) return [];
    const { template, claim } = runnable;
    const memory = claim.at === "estimated" ? memoryOn(claim, observed.hosts.get(one.host)) : UNKNOWN_MEMORY;
    return [desiredReplica({ service: observed.service, template, memory, ordinal, placed: one, taken })];
  });
}

function sacrificesOf(
  draft: ServiceDraft,
  placed: readonly Placed[],
  hasRoom: HasRoom,
): RolloutPlan["removals"] {
  const { observed, input, rollout, runnables, findings } = draft;
  const found = new Set(placed.map(({ ordinal }) => ordinal));
  const unplaced = new Set(rollout.wanted.map(({ ordinal }) => ordinal).filter((one) => !found.has(one)));
  const newest = runnables.get(input.revision ?? "");
  if (newest === undefined) return [];
  return planRemovalsFirst(input, rollout, unplaced, (ordinal, without) => {
    const asked = { ordinal, why: "surge" } as const;
    return hasRoom(slotDemand(observed, newest, asked, findings.refusals), without);
  });
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
    if (slice === undefined && !isLeaving) steps.push({ do: "create", what: "slices", object: wanted });
    if (slice !== undefined && !isLeaving) steps.push(...correctionOf(slice, wanted));
  }
  for (const object of byName.values()) {
    const because = `replica ${object.metadata.labels?.[LABEL_REPLICA] ?? object.metadata.name} is gone`;
    steps.push({ do: "remove", what: "slices", object, because });
  }
  return steps;
}

function correctionOf(slice: EndpointSlice, wanted: EndpointSlice): ServiceStep[] {
  if (slice.addressType !== wanted.addressType) {
    return [{ do: "remove", what: "slices", object: slice, because: "the host's address family changed" }];
  }
  const operations = correctSlice(slice, wanted);
  return operations.length === 0
    ? []
    : [{ do: "patch", what: "slices", object: slice, operations, because: "the host's addresses changed" }];
}

function stepsOfMutableSpec(
  { service, replicas, hosts }: ServiceObserved,
  resolution: Resolution,
): ServiceStep[] {
  return replicas
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap((object): ServiceStep[] => {
      const memory = memoryOf(object, resolution, hosts.get(object.spec.template.hostName));
      const operations = correctReplica(object, {
        ...mutableSpec(service),
        ...(memory === undefined ? {} : { memory }),
      });
      const because = "fields changed that need no restart";
      return operations.length === 0 ? [] : [{ do: "patch", what: "replicas", object, operations, because }];
    });
}

/** A better estimate for the same template is passed on; an unknown one replaces nothing. */
function memoryOf(
  { spec, status }: InferenceReplica,
  resolution: Resolution,
  host: Host | undefined,
): InferenceReplica["spec"]["memory"] | undefined {
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") return undefined;
  if (spec.template.revision !== resolution.template.revision) return undefined;
  const memory = memoryOn(resolution.claim, host);
  // A claim that its agent can never admit would keep all other replicas from that host.
  return status?.memory === undefined && exceeds(memory.claimBytes, host) ? undefined : memory;
}

function exceeds(claimBytes: number, host: Host | undefined): boolean {
  const budget = host === undefined ? undefined : hostBudget(host);
  return budget?.known === true && claimBytes > budget.bytes;
}
