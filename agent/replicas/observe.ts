/** From a replica's state and the host to the one value that the planner reads. Writes nothing: `refresh` has brought it up to date. */

import { FINALIZER_ENGINE } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { NOTHING_GENERATED } from "../../src/engines/speed.ts";
import type { RunnerContext } from "./context.ts";
import type { Crashes, Desired, DesiredState, ObservedReplica, SliceState } from "./observed.ts";
import { availableFor, pressureOn } from "./pressure.ts";
import { NO_WORKLOAD, UNPROBED } from "./state/probing.ts";
import { footprintOf, type LiveRun, liveRunOf, runOf, servedOf } from "./state/run.ts";
import { type ReplicaState, refOf, replicaOf, replicaRuntime } from "./state/state.ts";

/** What the API server wants of it, as far as this process can know. */
export function desiredStateOf({ wish }: ReplicaState, context: RunnerContext): DesiredState {
  if (wish.at === "gone") return "absent";
  if (wish.at === "unknown") return context.wasListed() ? "absent" : "unknown";
  return desiredOf(wish.replica, wish.drainBy?.at);
}

/** The planner's view of a replica; `drainBy` is the deadline of its drain on the monotonic clock. */
function desiredOf({ metadata, spec }: InferenceReplica, drainBy: number | undefined): Desired {
  const startMs = spec.probes.startSeconds === undefined ? undefined : spec.probes.startSeconds * 1_000;
  return {
    revision: spec.template.revision,
    runtime: spec.template.runtime,
    claimBytes: spec.memory.claimBytes,
    weightsBytes: spec.memory.weightsBytes,
    drainSeconds: spec.drainSeconds,
    isDeleting: metadata.deletionTimestamp !== undefined,
    hasFinalizer: metadata.finalizers?.includes(FINALIZER_ENGINE) ?? false,
    drain:
      spec.drain === undefined
        ? undefined
        : {
            reason: spec.drain.reason,
            deadlineAt: drainBy,
          },
    probes: { failures: spec.probes.failureThreshold, startMs },
  };
}

export function observeReplica(state: ReplicaState, context: RunnerContext): ObservedReplica {
  const run = runOf(state);
  const { engine, weights } = state;
  const available = availableFor(state.uid, context);
  const agentEnds = context.agentEnds();
  const live = liveRunOf(state);
  const served = servedOf(live);
  const { health, request, route } = live?.probing ?? UNPROBED;
  const { work, idleSince, generated, measured = NOTHING_GENERATED } = served?.workload ?? NO_WORKLOAD;
  return {
    run: run?.instance.state() ?? (engine.at === "unreadable" ? engine : { at: "none" }),
    record: run === undefined ? undefined : run.record,
    model: weights,
    memory: {
      budgetBytes: context.ports.memoryBudget() ?? "unknown",
      othersBytes: context.admission.othersBytes(state.uid),
      availableBytes: available,
    },
    pressure: pressureOn(state, context),
    launch: engine.at === "none" ? engine.launch : { at: "untried" },
    runtime: context.runtimes.state(replicaRuntime(state)),
    ...observeAddress(live, context),
    slice: { ...state.slice, state: currentSlice(state, context) },
    health,
    request,
    route: live?.instance.routeProblem === undefined ? undefined : route,
    work,
    idleSince,
    suspicion: served?.log.suspicion ?? { at: "none" },
    quiet: live?.at === "draining" ? live.quiet : {},
    footprint: footprintOf(run),
    secrets: live !== undefined && canRotate(state, live) ? live.secrets : undefined,
    generated: generated === undefined ? undefined : { read: generated, measured },
    crashes: crashesOf(state),
    wasListed: context.wasListed(),
    ...(agentEnds === undefined ? {} : { agentEnds }),
  };
}

/** Only the gate reads keys and certificates again while an engine runs. */
function canRotate(state: ReplicaState, { instance }: LiveRun): boolean {
  const { auth, tls } = replicaOf(state)?.spec.template ?? {};
  return instance.filesChanged !== undefined && (auth ?? tls) !== undefined;
}

/** A flapping address, or one that a new agent has not read yet, moves no engine; one that is down is no endpoint. */
function observeAddress(
  run: LiveRun | undefined,
  { ports, timings, address }: RunnerContext,
): Pick<ObservedReplica, "hasAddress" | "isBoundElsewhere" | "isCutOff" | "movesInMs"> {
  if (run?.elsewhereSince === undefined)
    return { hasAddress: address() !== undefined, isBoundElsewhere: false, isCutOff: false };
  const isCutOff = ports.isAddressUp?.(run.file.address) === false;
  const movesAt = run.elsewhereSince + (isCutOff ? timings.cutOffMs : timings.movedMs);
  const movesInMs = movesAt - ports.clock.monotonicMs();
  return { hasAddress: false, isBoundElsewhere: movesInMs <= 0, isCutOff, movesInMs: Math.max(1, movesInMs) };
}

/** As the API server last acknowledged it. */
export function currentSlice(state: ReplicaState, context: RunnerContext): SliceState {
  const ref = refOf(state);
  if (ref === undefined || isSuperseded(state, context)) return "missing";
  return context.cluster()?.endpoints.state(ref, runOf(state)?.file) ?? "unknown";
}

/** A new replica of the same name owns the slice now; the old one must not write it. */
function isSuperseded(state: ReplicaState, context: RunnerContext): boolean {
  if (state.wish.at !== "gone") return false;
  const ref = refOf(state);
  for (const other of context.states.values()) {
    if (other === state || other.wish.at === "gone") continue;
    const { metadata } = replicaOf(other) ?? {};
    if (metadata?.name === ref?.name && metadata?.namespace === ref?.namespace) return true;
  }
  return false;
}

function crashesOf(state: ReplicaState): Crashes {
  const { history, backoffUntil } = state.past;
  const { recordedRunId, lastExit } = history;
  const terminal = terminalOf(state);
  return {
    restarts: history.restarts,
    inARow: history.crashesInARow,
    recordedRunId,
    backoffUntil,
    lastExit: lastExit === undefined ? undefined : exitOf(lastExit),
    terminal,
  };
}

/** A serving engine disproves an earlier terminal failure. */
function terminalOf(state: ReplicaState): Crashes["terminal"] {
  const failed = state.past.history.terminal;
  if (failed === undefined || runOf(state)?.file.readyAtMs !== undefined) return undefined;
  const { runtimeVersion, weights } = failed;
  return { runtimeVersion, weights };
}

function exitOf(
  exit: NonNullable<ReplicaState["past"]["history"]["lastExit"]>,
): NonNullable<Crashes["lastExit"]> {
  const { code, signal, ...rest } = exit;
  return { ...rest, ...(code === undefined ? {} : { code }), ...(signal === undefined ? {} : { signal }) };
}
