/** The path of services on hosts: the controller places, updates and moves replicas, and agents run their engines. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import { keyOf } from "../../src/api/names.ts";
import { claimOfReplica } from "../../src/capacity/placement/claims.ts";
import { EARNED_MS } from "../../src/capacity/placement/priority.ts";
import {
  type HostClaim,
  type Placed,
  serviceOfSlot,
  type Unplaced,
} from "../../src/capacity/placement/types.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { type Moment, momentOf } from "../../src/util/moment.ts";
import type { ApplyOutcome } from "../frame/apply/run.ts";
import { NO_OWNED_OBJECTS } from "../frame/owned/observe.ts";
import type { ServiceStep } from "../frame/owned/steps.ts";
import { planTeardown, removals } from "../frame/owned/teardown.ts";
import type { ControllerPorts } from "../frame/ports.ts";
import { planPreemptions } from "../frame/scheduler/preempted.ts";
import { type LiveService, type PathResult, type ServicePath, soonest } from "../frame/service/path.ts";
import { type ReportedEvent, reportOn } from "../frame/watches/events.ts";
import { observeDemands, type PlannedDemands, planDemands, storeDemands } from "./draft.ts";
import { placementReasonOf } from "./plan/desired.ts";
import { desiredReplicas, planService, type ServiceDraft } from "./plan/plan.ts";
import type { HostsPathPorts } from "./ports.ts";
import { isServingReplica, ordinalOf, revisionOfReplica } from "./rollout/slots.ts";
import { earnedClassLeftMs } from "./status/priority.ts";
import { planStatus } from "./status/status.ts";

const CONFLICT_RETRY_MS = 1_000;
const REFRESH_MS = 60_000;
const LEFT = "the service runs as pods now";

export function createHostsPath(ports: HostsPathPorts): ServicePath {
  return {
    on: "Hosts",
    names: "replicas on hosts",
    prepare: (live) => storeDemands(ports, live, planDemands(observeDemands(ports, live))),
    reconcile: (live) => reconcile(ports, live),
    release: (key, isDeleted) => release(ports, key, isDeleted),
    serving: ({ replicas }) => replicas.filter(isServingReplica).length,
    leave: ({ replicas, slices, relaySlices }) => [
      // Before the replicas have drained, or clients would reach relays that have no replica for them.
      ...removals("relaySlices", relaySlices, LEFT),
      ...planTeardown({ ...NO_OWNED_OBJECTS, replicas, slices }, LEFT),
    ],
  };
}

function release(ports: HostsPathPorts, key: string, isDeleted: boolean): void {
  const { scheduler, memory, clock, onQueueChanged } = ports;
  if (isDeleted) {
    scheduler.forgetService(key, clock.monotonicMs());
    memory.forget(key);
    noteDrainBlockers(ports, key, new Map(), []);
    onQueueChanged();
  } else if (scheduler.setDemands(key, [], clock.monotonicMs())) onQueueChanged();
}

/** One pass: plan, act, report. Nothing waits between the plan and its claims, so no other service takes the planned room. */
async function reconcile(ports: HostsPathPorts, live: LiveService): Promise<PathResult> {
  const { key, service } = live;
  const { scheduler, clock } = ports;
  const pass = placeAndPlan(ports, live);
  noteDrainBlockers(ports, key, pass.staying, [...pass.draft.input.draining]);
  if (pass.isYielding) ports.onDecided([key]);
  const outcome = await applyAssuming(ports, service, pass);
  noteWritten(ports, outcome);
  reportReplicas(ports, service, outcome);
  // Placed demands leave the queue, and so do all demands of a service that cannot be served.
  const pending = pass.draft.demands.filter(({ ordinal }) =>
    pass.unplaced.some((one) => one.ordinal === ordinal),
  );
  if (scheduler.setDemands(key, outcome.obstacle.at === "none" ? pending : [], clock.monotonicMs()))
    ports.onQueueChanged();
  return report(ports, live, pass, outcome);
}

interface HostsPass extends Pick<PlannedDemands, "draft" | "preempted" | "recheckAfterMs"> {
  readonly placed: readonly Placed[];
  readonly unplaced: readonly Unplaced[];
  /** Reasons by `namespace/name` of the replicas that stay on draining hosts. */
  readonly staying: ReadonlyMap<string, string>;
  /** True if the service becomes idle in its next pass, and stops all replicas then, instead of those that are preempted. */
  readonly isYielding: boolean;
  readonly steps: readonly ServiceStep[];
}

/** All pending demands are planned together, so that none takes the room of another one ahead of it in the queue. */
function placeAndPlan(ports: HostsPathPorts, live: LiveService): HostsPass {
  const { scheduler, clock, idle } = ports;
  const { key } = live;
  const demands = planDemands(observeDemands(ports, live));
  storeDemands(ports, live, demands);
  ports.onDecided(scheduler.plan(clock.monotonicMs()).changed.filter((other) => other !== key));
  const { draft, preempted, recheckAfterMs } = demands;
  const { placed, waiting: unplaced } = scheduler.answers(key, clock.monotonicMs());
  const hasRoom: Parameters<typeof planService>[2] = (demand, without) =>
    scheduler.hasRoom(
      demand,
      without.map(({ metadata }) => keyOf(metadata)),
      clock.monotonicMs(),
    );
  const orders = draft.input.desired === 0 ? [] : scheduler.preemptions(key);
  const isYielding = orders[0] !== undefined && idle.yieldsTo(key, serviceOfSlot(orders[0].for));
  const steps = [
    ...planService(draft, placed, hasRoom),
    ...planPreemptions(draft.observed.replicas, isYielding ? [] : orders),
  ];
  const staying = blockedReplicas(draft, unplaced);
  return { draft, preempted, recheckAfterMs, placed, unplaced, staying, isYielding, steps };
}

function report(
  { clock }: HostsPathPorts,
  { service }: LiveService,
  { draft, preempted, recheckAfterMs, unplaced, staying }: HostsPass,
  { created, obstacle, rejections, isBehind }: ApplyOutcome,
): PathResult {
  const nowIso = isoSeconds(clock.nowMs());
  return {
    status: planStatus({ draft, unplaced, created, obstacle, rejections, preempted }, nowIso),
    obstacle,
    rejections,
    lacking: isImpossible(draft)
      ? desiredReplicas(service)
      : unplaced.filter(({ ordinal }) => !draft.mayStay.has(ordinal)).length,
    staying: draft.observed.replicas.filter(({ metadata }) => staying.has(keyOf(metadata))),
    ...soonest([
      isBehind ? CONFLICT_RETRY_MS : undefined,
      recheckAfterMs,
      // The numbers of a long queue are refreshed periodically; decisions are written immediately.
      unplaced.length > 0 ? REFRESH_MS : undefined,
      earnedClassLeftMs(service, clock.nowMs()),
    ]),
  };
}

/** True if only a change of the spec or of the Model helps. */
function isImpossible({ resolution }: ServiceDraft): boolean {
  return resolution.at === "blocked" && resolution.isFinal;
}

/** Applies the steps. The replicas to create count in placement before they exist. */
async function applyAssuming(
  ports: HostsPathPorts,
  service: InferenceService,
  { steps, placed }: HostsPass,
): Promise<ApplyOutcome> {
  const claims = assumedClaims(steps, service, placed, momentOf(ports.clock));
  for (const claim of claims) ports.scheduler.assume(claim, ports.clock.monotonicMs());
  try {
    const outcome = await ports.apply(steps);
    settleClaims(ports, claims, outcome);
    return outcome;
  } catch (error) {
    for (const { replica } of claims) ports.scheduler.forgetAssumed(replica);
    throw error;
  }
}

function noteDrainBlockers(
  { drainBlockers, onDrainBlockers }: HostsPathPorts,
  key: string,
  found: ReadonlyMap<string, string>,
  hosts: readonly string[],
): void {
  if (drainBlockers.set(key, found)) onDrainBlockers(hosts);
}

/** Records an Event, with the reason, for each replica that was created or removed. */
function reportReplicas(
  { record }: ControllerPorts,
  service: InferenceService,
  { made, removed }: ApplyOutcome,
): void {
  const events: ReportedEvent[] = [];
  for (const replica of made) {
    const reason = placementReasonOf(replica);
    const note = `${describeReplica(replica)}: revision ${replica.spec.template.revision}${reason === "" ? "" : `, ${reason}`}`;
    events.push({ type: "Normal", reason: "ReplicaCreated", action: "Place", note });
  }
  for (const { replica, because } of removed) {
    const note = `draining ${describeReplica(replica)}: ${because}`;
    events.push({ type: "Normal", reason: "ReplicaRemoved", action: "Remove", note });
  }
  for (const event of events) reportOn(record, INFERENCE_SERVICES, service, event);
}

function describeReplica({ metadata, spec }: InferenceReplica): string {
  return `${metadata.name} on ${spec.template.hostName}`;
}

/** The claims of replicas that are about to be created, with the priority class that they earned in the queue. */
function assumedClaims(
  steps: readonly ServiceStep[],
  service: InferenceService,
  placed: readonly Placed[],
  moment: Moment,
): HostClaim[] {
  return steps.flatMap((step) => {
    if (step.do !== "create" || step.what !== "replicas") return [];
    const claim = claimOfReplica(step.object, service, moment);
    const earned = placed.find(({ ordinal }) => ordinal === ordinalOf(step.object))?.earned;
    if (claim.eviction === undefined || earned === undefined) return [claim];
    const untilMs = moment.monotonicMs + EARNED_MS;
    return [{ ...claim, eviction: { ...claim.eviction, earned: { priority: earned, untilMs } } }];
  });
}

/** A created replica stays assumed until the watch shows it; a failed create frees its claim. */
function settleClaims(
  { watches, scheduler }: HostsPathPorts,
  claims: readonly HostClaim[],
  { created }: ApplyOutcome,
): void {
  const made = new Set(created.map(({ metadata }) => keyOf(metadata)));
  for (const { replica } of claims) {
    if (!made.has(replica) || watches.replicas.get(replica) !== undefined) scheduler.forgetAssumed(replica);
  }
}

/** Remembers created and removed replicas that the watches do not show yet, for the next pass. */
function noteWritten({ watches, clock, memory }: HostsPathPorts, { created, removed }: ApplyOutcome): void {
  const atMs = clock.monotonicMs();
  for (const replica of created) {
    const { namespace, name, uid } = replica.metadata;
    const isSeen = watches.replicas.get(keyOf({ namespace, name }))?.metadata.uid === uid;
    if (!isSeen) memory.noteCreated(replica, atMs);
  }
  for (const { replica } of removed) memory.noteRemoved(replica, atMs);
}

/** Reasons by `namespace/name` of the replica, without replicas that will move or whose successor is starting. */
export function blockedReplicas(
  { observed, input, resolution, rollout }: ServiceDraft,
  unplaced: readonly Unplaced[],
): ReadonlyMap<string, string> {
  const blocked = new Map<string, string>();
  for (const replica of observed.replicas) {
    const ordinal = ordinalOf(replica);
    // Replicas that live eviction moves may stay, so they do not count.
    const isDrained = observed.hosts.get(replica.spec.template.hostName)?.spec.drain === true;
    if (!isDrained || isBeingDeleted(replica) || ordinal >= input.desired) continue;
    const key = keyOf(replica.metadata);
    const miss = unplaced.find((one) => one.ordinal === ordinal);
    if (miss !== undefined) blocked.set(key, miss.message);
    else if (resolution.at === "blocked") blocked.set(key, resolution.message);
    else if (rollout.state.stoppedBy !== undefined && !input.known.has(revisionOfReplica(replica))) {
      blocked.set(
        key,
        `its revision is no longer in the history, and the rollout of its service is stopped: ${rollout.state.stoppedBy}`,
      );
    }
  }
  return blocked;
}
