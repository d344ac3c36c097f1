/** Tells the API server how a replica is: status when it differs, an Event when its phase changes. */
import { API_VERSION, MANAGER_AGENT } from "../../../src/api/group.ts";
import type {
  InferenceReplica,
  InferenceReplicaStatus,
  ReplicaPhase,
} from "../../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import type { Observed } from "../../../src/replica/observed.ts";
import { isSameStatus, replicaStatus } from "../../../src/replica/status.ts";
import type { ReplicaPlan } from "../../../src/replica/step.ts";
import { isTransition } from "../../../src/replica/transitions.ts";
import type { RunnerContext } from "../context.ts";
import type { ReplicaState } from "../state.ts";
import { exitNote } from "./exit-note.ts";
import { isoSeconds } from "./iso-seconds.ts";
import { newerOf } from "./newest.ts";
import { noteTransition } from "./note-transition.ts";

const TROUBLE: ReadonlySet<ReplicaPhase> = new Set(["Waiting", "Backoff", "Failed", "Evicted"]);

/** Writes what has changed; nothing is waited for. */
export function report(
  state: ReplicaState,
  plan: ReplicaPlan,
  observed: Observed,
  context: RunnerContext,
): void {
  if (state.desired === undefined || state.isGone) return;
  noteTransition(state, plan, context);
  if (!state.isSeen) return;
  tell(state, plan, context);
  if (isSameStatus(wantedStatus(state, plan, observed, context), state.desired.status)) return;
  state.jobs.run("status", () => writeStatus(state, observed, context), { isSilent: true });
}

/** Writes the newest status, and again when it has moved on meanwhile. */
async function writeStatus(
  state: ReplicaState,
  observed: Observed,
  context: RunnerContext,
): Promise<boolean> {
  const { desired, plan } = state;
  if (desired === undefined || plan === undefined || state.isGone) return true;
  const { name, namespace = "" } = desired.metadata;
  const status = wantedStatus(state, plan, state.observed ?? observed, context);
  const object = {
    apiVersion: API_VERSION,
    kind: INFERENCE_REPLICAS.kind,
    metadata: { name, namespace },
    status,
  } as InferenceReplica;
  const options = { manager: MANAGER_AGENT, subresource: "status", current: desired } as const;
  const answer = await context.ports.client.apply(INFERENCE_REPLICAS, object, options);
  if (!answer.ok) {
    if (answer.error.kind === "notFound" || answer.error.kind === "conflict") return true;
    state.sayings.found("status", answer.error.message, { error: answer.error });
    return false;
  }
  state.sayings.over("status");
  if (status.progress !== desired.status?.progress)
    state.progressWrittenAt = context.ports.clock.monotonicMs();
  state.desired = newerOf(state.desired, answer.value.object);
  if (state.plan !== plan) context.enqueue(state.uid);
  return true;
}

function wantedStatus(
  state: ReplicaState,
  plan: ReplicaPlan,
  observed: Observed,
  context: RunnerContext,
): InferenceReplicaStatus {
  const { file, desired, progressWrittenAt } = state;
  const { wallMs, monotonicMs } = context.moment();
  const { nextTryAt } = plan;
  return replicaStatus(
    plan,
    observed,
    desired?.status,
    {
      generation: desired?.metadata.generation ?? 0,
      ...(file === undefined ? {} : { startedAtIso: isoSeconds(file.startedAtMs) }),
      ...(file?.readyAtMs === undefined ? {} : { readyAtIso: isoSeconds(file.readyAtMs) }),
      ...(file?.contextPerSlot === undefined ? {} : { contextPerSlot: file.contextPerSlot }),
      // Rounded up: who looks at that time should find it tried.
      ...(nextTryAt === undefined ? {} : { nextTryIso: isoSeconds(nextTryAt - monotonicMs + wallMs + 999) }),
      ...(progressWrittenAt === undefined ? {} : { progressWrittenAt }),
      transitions: state.history.transitions,
    },
    { now: monotonicMs, iso: isoSeconds(wallMs) },
  );
}

function tell(state: ReplicaState, plan: ReplicaPlan, context: RunnerContext): void {
  const before = state.told ?? state.desired?.status;
  if (!isTransition(before, plan) || state.desired === undefined) return;
  state.told = { phase: plan.phase, reason: plan.reason };
  const { uid } = state;
  state.log.info({ phase: plan.phase, reason: plan.reason, message: plan.message }, "phase changed");
  const { name, namespace = "" } = state.desired.metadata;
  context.ports.recorder(
    { apiVersion: API_VERSION, kind: INFERENCE_REPLICAS.kind, name, namespace, uid },
    {
      type: TROUBLE.has(plan.phase) ? "Warning" : "Normal",
      reason: plan.reason,
      action: plan.phase,
      ...noteOf(state, plan),
    },
  );
}

/** Where the plan repeats how the engine last ended, with what is known of that. */
function noteOf({ history }: ReplicaState, { reason, message }: ReplicaPlan) {
  const { lastExit } = history;
  return lastExit !== undefined && lastExit.reason === reason && lastExit.message === message
    ? exitNote(message, lastExit)
    : { note: message };
}
