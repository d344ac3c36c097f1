/** Publishes a replica's state: its status when that differs, an Event when its phase changes. */

import { API_VERSION, MANAGER_AGENT } from "../../../src/api/group.ts";
import type {
  InferenceReplica,
  InferenceReplicaStatus,
  ReplicaPhase,
} from "../../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { RunnerContext } from "../context/context.ts";
import type { ObservedReplica } from "../evidence/observed.ts";
import { saveHistory } from "../state/history.ts";
import { livePerformanceOf } from "../state/live-load.ts";
import { runOf } from "../state/run.ts";
import { type ReplicaState, replicaOf, setFromResponse, setPublished } from "../state/state.ts";
import type { ReplicaPlan } from "../state/step.ts";
import { recordReplicaEvent } from "./events.ts";
import { exitNote } from "./exit-note.ts";
import { isSameStatus, replicaStatus } from "./status.ts";
import { addTransition, isTransition } from "./transitions.ts";

const WARNING_PHASES: ReadonlySet<ReplicaPhase> = new Set(["Waiting", "Backoff", "Failed", "Evicted"]);

type Phase = Pick<ReplicaPlan, "phase" | "reason" | "message">;

/** Starts writing what has changed, and does not wait for the write. */
export function report(
  state: ReplicaState,
  plan: ReplicaPlan,
  observed: ObservedReplica,
  context: RunnerContext,
): void {
  const { desired } = state;
  if (desired.at !== "cached" && desired.at !== "current") return;
  reportPhase(state, plan, context);
  if (desired.at === "cached") return;
  if (isSameStatus(desiredStatus(state, plan, observed, context), desired.replica.status)) return;
  state.jobs.run("status", () => writeStatus(state, observed, context), { isSilent: true });
}

/** Saves a phase for the next status and records its Event: a phase may last less time than writing a status takes. */
export function reportPhase(state: ReplicaState, plan: Phase, context: RunnerContext): void {
  noteTransition(state, plan, context);
  if (state.desired.at === "current") recordEvent(state, state.desired.replica, plan, context);
}

/** Writes the newest status, and again if it has changed meanwhile. */
async function writeStatus(
  state: ReplicaState,
  observed: ObservedReplica,
  context: RunnerContext,
): Promise<boolean> {
  const { plan } = state.published;
  const desired = replicaOf(state);
  const { client } = context.cluster() ?? {};
  if (client === undefined) return false;
  if (desired === undefined || plan === undefined || state.desired.at === "deleted") return true;
  const { name, namespace = "" } = desired.metadata;
  const status = desiredStatus(state, plan, state.published.observed ?? observed, context);
  const object = {
    apiVersion: API_VERSION,
    kind: INFERENCE_REPLICAS.kind,
    metadata: { name, namespace },
    status,
  } as InferenceReplica;
  const options = { manager: MANAGER_AGENT, subresource: "status", current: desired } as const;
  const answer = await client.apply(INFERENCE_REPLICAS, object, options);
  if (!answer.ok) {
    if (answer.error.kind === "notFound" || answer.error.kind === "conflict") return true;
    state.repeated.found("write the status", answer.error.message, { error: answer.error });
    return false;
  }
  state.repeated.resolved("write the status");
  if (status.progress !== desired.status?.progress)
    setPublished(state, { progressWrittenAt: context.ports.clock.monotonicMs() });
  if (!isDeepEqual(status.performance, desired.status?.performance))
    setPublished(state, { performanceWrittenAt: context.ports.clock.monotonicMs() });
  setFromResponse(state, answer.value.object, context.moment());
  if (state.published.plan !== plan) context.enqueue(state.uid);
  return true;
}

function desiredStatus(
  state: ReplicaState,
  plan: ReplicaPlan,
  observed: ObservedReplica,
  context: RunnerContext,
): InferenceReplicaStatus {
  const desired = replicaOf(state);
  const file = runOf(state)?.file;
  const { progressWrittenAt, performanceWrittenAt } = state.published;
  const { progressMs, performanceMs, performanceWindowMs } = context.timings;
  const { wallMs, monotonicMs } = context.moment();
  const { nextTryAt } = plan;
  return replicaStatus(
    plan,
    observed,
    desired?.status,
    {
      generation: desired?.metadata.generation ?? 0,
      startedAtIso: file && isoSeconds(file.startedAtMs),
      readyAtIso: file?.readyAtMs === undefined ? undefined : isoSeconds(file.readyAtMs),
      contextPerSlot: file?.contextPerSlot,
      // Rounded up, so that the retry has started by that time.
      nextTryIso: nextTryAt === undefined ? undefined : isoSeconds(nextTryAt - monotonicMs + wallMs + 999),
      progressWrittenAt,
      performance: livePerformanceOf(state, monotonicMs, performanceWindowMs),
      performanceWrittenAt,
      transitions: state.past.history.transitions,
    },
    { now: monotonicMs, iso: isoSeconds(wallMs), progressMs, performanceMs },
  );
}

function recordEvent(
  state: ReplicaState,
  replica: InferenceReplica,
  plan: Phase,
  context: RunnerContext,
): void {
  const before = state.published.event ?? replica.status;
  if (!isTransition(before, plan)) return;
  setPublished(state, { event: { phase: plan.phase, reason: plan.reason } });
  const { phase, reason, message } = plan;
  state.log.info({ phase, reason, message }, "phase changed");
  const type = WARNING_PHASES.has(phase) ? "Warning" : "Normal";
  recordReplicaEvent(state, context, { type, reason, action: phase, ...noteOf(state, plan) });
}

/** If the plan reports the engine's last exit, adds the details of that exit. */
function noteOf({ past: { history } }: ReplicaState, { reason, message }: Phase) {
  const { lastExit } = history;
  return lastExit !== undefined && lastExit.reason === reason && lastExit.message === message
    ? exitNote(message, lastExit)
    : { note: message };
}

/** Saved to disk even while the API server is unreachable, because that outage may outlast the agent. */
function noteTransition(state: ReplicaState, plan: Phase, context: RunnerContext): void {
  const { history } = state.past;
  // If the state folder was lost, only the API server still has the transitions.
  const known =
    history.transitions.length > 0 ? history.transitions : (replicaOf(state)?.status?.transitions ?? []);
  const next = addTransition(known, plan, isoSeconds(context.ports.clock.nowMs()));
  if (next === known) return;
  saveHistory(state, { ...history, transitions: [...next] });
}
