/** Publishes a replica's state: its status when that differs, an Event when its phase changes. */

import { API_VERSION, MANAGER_AGENT } from "../../../src/api/group.ts";
import type {
  InferenceReplica,
  InferenceReplicaStatus,
  ReplicaPhase,
} from "../../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { RunnerContext } from "../context.ts";
import type { ObservedReplica } from "../observed.ts";
import { keepHistory } from "../state/history.ts";
import { runOf } from "../state/run.ts";
import { type ReplicaState, replicaOf, setFromResponse, setShown } from "../state/state.ts";
import type { ReplicaPlan } from "../step.ts";
import { exitNote } from "./exit-note.ts";
import { isSameStatus, replicaStatus } from "./status.ts";
import { addTransition, isTransition } from "./transitions.ts";

const TROUBLE: ReadonlySet<ReplicaPhase> = new Set(["Waiting", "Backoff", "Failed", "Evicted"]);

type Phase = Pick<ReplicaPlan, "phase" | "reason" | "message">;

/** Writes what has changed, without waiting for it. */
export function report(
  state: ReplicaState,
  plan: ReplicaPlan,
  observed: ObservedReplica,
  context: RunnerContext,
): void {
  const { wish } = state;
  if (wish.at !== "kept" && wish.at !== "seen") return;
  reportPhase(state, plan, context);
  if (wish.at === "kept") return;
  if (isSameStatus(wantedStatus(state, plan, observed, context), wish.replica.status)) return;
  state.jobs.run("status", () => writeStatus(state, observed, context), { isSilent: true });
}

/** Keeps a phase for the next status, and records its Event: it may have passed before a status is written. */
export function reportPhase(state: ReplicaState, plan: Phase, context: RunnerContext): void {
  noteTransition(state, plan, context);
  if (state.wish.at === "seen") recordEvent(state, state.wish.replica, plan, context);
}

/** Writes the newest status, and again if it has changed meanwhile. */
async function writeStatus(
  state: ReplicaState,
  observed: ObservedReplica,
  context: RunnerContext,
): Promise<boolean> {
  const { plan } = state.shown;
  const desired = replicaOf(state);
  const { client } = context.cluster() ?? {};
  if (client === undefined) return false;
  if (desired === undefined || plan === undefined || state.wish.at === "gone") return true;
  const { name, namespace = "" } = desired.metadata;
  const status = wantedStatus(state, plan, state.shown.observed ?? observed, context);
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
    setShown(state, { progressWrittenAt: context.ports.clock.monotonicMs() });
  setFromResponse(state, answer.value.object, context.moment());
  if (state.shown.plan !== plan) context.enqueue(state.uid);
  return true;
}

function wantedStatus(
  state: ReplicaState,
  plan: ReplicaPlan,
  observed: ObservedReplica,
  context: RunnerContext,
): InferenceReplicaStatus {
  const desired = replicaOf(state);
  const file = runOf(state)?.file;
  const { progressWrittenAt } = state.shown;
  const { wallMs, monotonicMs } = context.moment();
  const { nextTryAt } = plan;
  return replicaStatus(
    plan,
    observed,
    desired?.status,
    {
      generation: desired?.metadata.generation ?? 0,
      startedAtIso: file === undefined ? undefined : isoSeconds(file.startedAtMs),
      readyAtIso: file?.readyAtMs === undefined ? undefined : isoSeconds(file.readyAtMs),
      contextPerSlot: file?.contextPerSlot === undefined ? undefined : file.contextPerSlot,
      // Rounded up: at that time the retry has started.
      nextTryIso: nextTryAt === undefined ? undefined : isoSeconds(nextTryAt - monotonicMs + wallMs + 999),
      progressWrittenAt,
      transitions: state.past.history.transitions,
    },
    { now: monotonicMs, iso: isoSeconds(wallMs), progressMs: context.timings.progressMs },
  );
}

function recordEvent(
  state: ReplicaState,
  replica: InferenceReplica,
  plan: Phase,
  context: RunnerContext,
): void {
  const before = state.shown.event ?? replica.status;
  if (!isTransition(before, plan)) return;
  setShown(state, { event: { phase: plan.phase, reason: plan.reason } });
  const { uid } = state;
  state.log.info({ phase: plan.phase, reason: plan.reason, message: plan.message }, "phase changed");
  const { name, namespace = "" } = replica.metadata;
  context.cluster()?.recorder(
    { apiVersion: API_VERSION, kind: INFERENCE_REPLICAS.kind, name, namespace, uid },
    {
      type: TROUBLE.has(plan.phase) ? "Warning" : "Normal",
      reason: plan.reason,
      action: plan.phase,
      ...noteOf(state, plan),
    },
  );
}

/** If the plan repeats how the engine last exited, adds what is known of that. */
function noteOf({ past: { history } }: ReplicaState, { reason, message }: Phase) {
  const { lastExit } = history;
  return lastExit !== undefined && lastExit.reason === reason && lastExit.message === message
    ? exitNote(message, lastExit)
    : { note: message };
}

/** Also while the API server is unreachable: that outage may outlast the agent. */
function noteTransition(state: ReplicaState, plan: Phase, context: RunnerContext): void {
  const { history } = state.past;
  // If the state folder was lost, what the API server shows is all that is left.
  const known =
    history.transitions.length > 0 ? history.transitions : (replicaOf(state)?.status?.transitions ?? []);
  const next = addTransition(known, plan, isoSeconds(context.ports.clock.nowMs()));
  if (next === known) return;
  keepHistory(state, { ...history, transitions: [...next] });
}
