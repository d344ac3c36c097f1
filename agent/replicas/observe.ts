/** Builds the planner's input from a replica's state and the host. Writes nothing: `refresh` has brought the state up to date. */

import { FINALIZER_ENGINE } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import { NOTHING_GENERATED } from "../../src/engines/speed.ts";
import type { RunnerContext } from "./context/context.ts";
import type { Crashes, Desired, DesiredState, ObservedReplica, SliceState } from "./evidence/observed.ts";
import { availableFor, pressureOn } from "./pressure.ts";
import { NO_WORKLOAD, UNPROBED } from "./state/probing.ts";
import { footprintOf, type LiveRun, liveRunOf, runOf, servedOf } from "./state/run.ts";
import { clientsOf, type ReplicaState, refOf, replicaOf, replicaRuntime } from "./state/state.ts";

/** The desired state, as far as this process knows it. */
export function desiredStateOf({ desired }: ReplicaState, context: RunnerContext): DesiredState {
  if (desired.at === "deleted") return "absent";
  if (desired.at === "unknown") return context.wasListed() ? "absent" : "unknown";
  return desiredOf(desired.replica, desired.drainBy?.at);
}

/** The planner's view of a replica; `drainBy` is the deadline of its drain on the monotonic clock. */
function desiredOf({ metadata, spec }: InferenceReplica, drainBy: number | undefined): Desired {
  const startMs = spec.probes.startSeconds === undefined ? undefined : spec.probes.startSeconds * 1_000;
  return {
    revision: spec.template.revision,
    runtime: spec.template.runtime,
    claimBytes: spec.memory.claimBytes,
    memory: spec.memory.claimBytes === 0 ? undefined : spec.memory,
    weightsBytes: spec.memory.weightsBytes,
    drainSeconds: spec.drainSeconds,
    isDeleting: isBeingDeleted({ metadata }),
    hasFinalizer: metadata.finalizers?.includes(FINALIZER_ENGINE) ?? false,
    drain: spec.drain && { reason: spec.drain.reason, deadlineAt: drainBy },
    probes: { failures: spec.probes.failureThreshold, startMs },
  };
}

export function observeReplica(state: ReplicaState, context: RunnerContext): ObservedReplica {
  const run = runOf(state);
  const { engine, weights } = state;
  const live = liveRunOf(state);
  const served = servedOf(live);
  const { health, request, route } = live?.probing ?? UNPROBED;
  const { work, idleSince, generated, measured = NOTHING_GENERATED } = served?.workload ?? NO_WORKLOAD;
  return {
    run: run?.instance.state() ?? (engine.at === "unreadable" ? engine : { at: "none" }),
    record: run?.record,
    model: weights,
    memory: {
      budgetBytes: context.ports.memoryBudget() ?? "unknown",
      othersBytes: context.admission.othersBytes(state.uid),
      availableBytes: availableFor(state.uid, context),
    },
    pressure: pressureOn(state, context),
    launch: engine.at === "none" ? engine.launch : { at: "untried" },
    runtime: context.runtimes.state(replicaRuntime(state)),
    ...observeAddress(live, context),
    slice: { ...state.slice, state: currentSlice(state, context) },
    health,
    request,
    route: live?.instance.checkRoute === undefined ? undefined : route,
    work,
    idleSince,
    suspicion: served?.log.suspicion ?? { at: "none" },
    quiet: live?.at === "draining" ? live.quiet : {},
    footprint: footprintOf(run),
    secrets: live !== undefined && canRotate(state, live) ? live.secrets : undefined,
    hasOtherClients: live !== undefined && hasOtherClients(state, live),
    generated: generated === undefined ? undefined : { read: generated, measured },
    crashes: crashesOf(state),
    wasListed: context.wasListed(),
    agentStop: context.agentStop(),
  };
}

/** Only the gate rereads keys, certificates and clients while an engine runs. */
function canRotate(state: ReplicaState, { instance }: LiveRun): boolean {
  const { auth, tls, transport } = replicaOf(state)?.spec.template ?? {};
  return instance.filesChanged !== undefined && (auth ?? tls ?? transport) !== undefined;
}

function hasOtherClients(state: ReplicaState, { secrets }: LiveRun): boolean {
  const replica = replicaOf(state);
  const clients = replica && clientsOf(replica);
  return clients !== undefined && clients !== secrets.clients;
}

/** An engine does not move because an address flaps, or because a new agent has not read it yet; an address that is down is no endpoint. */
function observeAddress(
  run: LiveRun | undefined,
  { ports, timings, address }: RunnerContext,
): Pick<ObservedReplica, "hasAddress" | "isBoundElsewhere" | "isCutOff" | "movesInMs"> {
  if (run?.addressMismatchSince === undefined)
    return { hasAddress: address() !== undefined, isBoundElsewhere: false, isCutOff: false };
  const isCutOff = ports.isAddressUp?.(run.file.address) === false;
  const movesAt = run.addressMismatchSince + (isCutOff ? timings.cutOffMs : timings.movedMs);
  const movesInMs = movesAt - ports.clock.monotonicMs();
  return { hasAddress: false, isBoundElsewhere: movesInMs <= 0, isCutOff, movesInMs: Math.max(1, movesInMs) };
}

/** The slice's state that the API server last acknowledged. */
export function currentSlice(state: ReplicaState, context: RunnerContext): SliceState {
  const ref = refOf(state);
  if (ref === undefined || isSuperseded(state, context)) return "missing";
  return context.cluster()?.endpoints.state(ref, runOf(state)?.file) ?? "unknown";
}

/** True if a new replica of the same name owns the slice: the old one must not write it. */
function isSuperseded(state: ReplicaState, context: RunnerContext): boolean {
  if (state.desired.at !== "deleted") return false;
  const ref = refOf(state);
  for (const other of context.states.values()) {
    if (other === state || other.desired.at === "deleted") continue;
    const { metadata } = replicaOf(other) ?? {};
    if (metadata?.name === ref?.name && metadata?.namespace === ref?.namespace) return true;
  }
  return false;
}

/** A serving engine disproves an earlier terminal failure. */
function crashesOf(state: ReplicaState): Crashes {
  const { history, backoffUntil } = state.past;
  const { restarts, recordedRunId, lastExit } = history;
  const wasReady = runOf(state)?.file.readyAtMs !== undefined;
  const terminal = wasReady ? undefined : history.terminal;
  return { restarts, recordedRunId, backoffUntil, lastExit, terminal };
}
