/** The path of services on hosts: the controller places, updates and moves replicas, and agents run their engines. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { keyOf } from "../../../src/api/names.ts";
import { type Placed, type Preemption, serviceOfSlot } from "../../../src/capacity/placement/types.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { momentOf } from "../../../src/util/moment.ts";
import { planPreemptions } from "../../scheduler/preempted.ts";
import { type ReportedEvent, reportOn } from "../../watches/events.ts";
import type { ControllerPorts } from "../../watches/ports.ts";
import { applyServiceSteps } from "../apply/apply.ts";
import type { ApplyOutcome } from "../apply/run.ts";
import { NO_OWNED_OBJECTS } from "../owned/observe.ts";
import type { ServiceStep } from "../owned/steps.ts";
import { planTeardown } from "../owned/teardown.ts";
import { type LiveService, type PathResult, type ServicePath, soonest } from "../path.ts";
import { assumedClaims, noteWritten, settleClaims } from "./assumed-claims.ts";
import { currentDraftOf } from "./draft.ts";
import { desiredReplicas, planService, type ServiceDraft } from "./plan/plan.ts";
import type { HostsPathPorts } from "./ports.ts";
import { blockedReplicas } from "./rollout/blocked-replicas.ts";
import { isServingReplica, ordinalOf } from "./rollout/slots.ts";
import { earnedClassLeftMs } from "./status/priority.ts";
import { planStatus } from "./status/status.ts";

const CONFLICT_RETRY_MS = 1_000;
const REFRESH_MS = 60_000;

export function createHostsPath(ports: HostsPathPorts): ServicePath {
  return {
    on: "Hosts",
    names: "replicas on hosts",
    prepare: (live) => {
      currentDraftOf(ports, live);
    },
    reconcile: (live) => reconcile(ports, live),
    release: (key, isDeleted) => release(ports, key, isDeleted),
    serving: ({ replicas }) => replicas.filter(isServingReplica).length,
    leave: ({ replicas, slices }) =>
      planTeardown({ ...NO_OWNED_OBJECTS, replicas, slices }, "the service runs as pods now"),
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

async function reconcile(ports: HostsPathPorts, live: LiveService): Promise<PathResult> {
  const { scheduler, clock } = ports;
  const { key, service } = live;
  const { draft, preempted, recheckAfterMs } = currentDraftOf(ports, live);
  // All pending demands are planned together, so that none takes the room of another one ahead of it in the queue.
  ports.onDecided(scheduler.plan(clock.monotonicMs()).changed.filter((other) => other !== key));
  const { placed, waiting: unplaced } = scheduler.answers(key, clock.monotonicMs());
  const staying = blockedReplicas(draft, unplaced);
  noteDrainBlockers(ports, key, staying, [...draft.input.draining]);
  const hasRoom: Parameters<typeof planService>[2] = (demand, without) =>
    scheduler.hasRoom(
      demand,
      without.map(({ metadata }) => keyOf(metadata)),
      clock.monotonicMs(),
    );
  const steps = [
    ...planService(draft, placed, hasRoom),
    ...planPreemptions(draft.observed.replicas, ordersFor(ports, draft, key)),
  ];
  const outcome = await applyAssuming(ports, service, steps, placed);
  noteWritten(ports, outcome);
  reportReplicas(ports, service, outcome, placed);
  const { created, obstacle, rejections, isBehind } = outcome;
  // Placed demands leave the queue, and so do all demands of a service that cannot be served.
  const pending = draft.demands.filter(({ ordinal }) => unplaced.some((one) => one.ordinal === ordinal));
  if (scheduler.setDemands(key, obstacle.at === "none" ? pending : [], clock.monotonicMs()))
    ports.onQueueChanged();
  const nowIso = isoSeconds(clock.nowMs());
  const times = [
    isBehind ? CONFLICT_RETRY_MS : undefined,
    recheckAfterMs,
    // The numbers of a long queue are refreshed periodically; decisions are written immediately.
    unplaced.length > 0 ? REFRESH_MS : undefined,
    earnedClassLeftMs(service, clock.nowMs()),
  ];
  return {
    status: planStatus({ draft, unplaced, created, obstacle, rejections, preempted }, nowIso),
    obstacle,
    rejections,
    lacking: isImpossible(draft)
      ? desiredReplicas(service)
      : unplaced.filter(({ ordinal }) => !draft.mayStay.has(ordinal)).length,
    staying: draft.observed.replicas.filter(({ metadata }) => staying.has(keyOf(metadata))),
    ...soonest(times),
  };
}

/** Replicas to preempt. A service that gives its memory away becomes idle in its next pass instead, and then stops all replicas. */
function ordersFor(
  { scheduler, idle, onDecided }: HostsPathPorts,
  { input }: ServiceDraft,
  key: string,
): readonly Preemption[] {
  const orders = scheduler.preemptions(key);
  const [order] = orders;
  if (order === undefined || input.desired === 0) return [];
  if (!idle.yieldsTo(key, serviceOfSlot(order.for))) return orders;
  onDecided([key]);
  return [];
}

/** True if only a change of the spec or of the Model helps. */
function isImpossible({ resolution }: ServiceDraft): boolean {
  return resolution.at === "blocked" && resolution.isFinal;
}

/** Applies the steps. The replicas to create count in placement before they exist. */
async function applyAssuming(
  ports: HostsPathPorts,
  service: InferenceService,
  steps: readonly ServiceStep[],
  placed: readonly Placed[],
): Promise<ApplyOutcome> {
  const claims = assumedClaims(steps, service, placed, momentOf(ports.clock));
  for (const claim of claims) ports.scheduler.assume(claim, ports.clock.monotonicMs());
  try {
    const outcome = await applyServiceSteps(ports, steps);
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
  placed: readonly Placed[],
): void {
  const events: ReportedEvent[] = [];
  for (const replica of made) {
    const reason = placed.find(({ ordinal }) => ordinal === ordinalOf(replica))?.why ?? "";
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
