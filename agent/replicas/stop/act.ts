/** Applies the steps of a replica that should not run: wait until its engine is idle, then remove its finalizer and files. */

import { rmSync } from "node:fs";
import { FINALIZER_ENGINE } from "../../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import type { RunnerContext } from "../context/context.ts";
import { persistStop } from "../end/act.ts";
import { pollQuiet } from "../serve/probes.ts";
import { runOf } from "../state/run.ts";
import { whenRecordWritten } from "../state/save-record.ts";
import { markDeleted, type ReplicaState, replicaOf, setFromResponse } from "../state/state.ts";
import type { StepOutcome } from "../state/step.ts";
import type { StopStep } from "./plan.ts";

export function applyStop(
  step: StopStep,
  state: ReplicaState,
  context: RunnerContext,
): StepOutcome | Promise<StepOutcome> {
  switch (step.do) {
    case "noteWithdrawn":
      return noteWithdrawn(state, context, step.withdrawnAt);
    case "pollQuiet":
      pollQuiet(state, context);
      return "later";
    case "cancelFetch":
      state.jobs.cancel("fetch");
      return "later";
    case "removeFinalizer":
      removeFinalizer(state, context);
      return "later";
    case "forgetReplica":
      return forgetReplica(state, context);
    default:
      return step satisfies never;
  }
}

function noteWithdrawn(
  state: ReplicaState,
  context: RunnerContext,
  withdrawnAt: number,
): StepOutcome | Promise<StepOutcome> {
  const stop = runOf(state)?.record.stop;
  return stop === undefined ? "later" : persistStop(state, context, { ...stop, withdrawnAt });
}

/**
 * Removes the finalizer with a patch that applies only to the exact object and version that was read. After a conflict the
 * object is read again for the next attempt.
 */
function removeFinalizer(state: ReplicaState, context: RunnerContext): void {
  state.jobs.run("finalizer", async () => {
    const { metadata } = replicaOf(state) ?? {};
    const index = metadata?.finalizers?.indexOf(FINALIZER_ENGINE) ?? -1;
    if (metadata === undefined || index < 0) return true;
    const { client } = context.cluster() ?? {};
    if (client === undefined) return false;
    const ref = { name: metadata.name, namespace: metadata.namespace };
    const answer = await client.jsonPatch(INFERENCE_REPLICAS, ref, [
      { op: "test", path: "/metadata/uid", value: metadata.uid },
      { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
      { op: "test", path: `/metadata/finalizers/${index}`, value: FINALIZER_ENGINE },
      { op: "remove", path: `/metadata/finalizers/${index}` },
    ]);
    if (answer.ok) {
      state.log.info({}, "finalizer removed");
      setFromResponse(state, answer.value, context.moment());
      return true;
    }
    if (answer.error.kind === "notFound") {
      markDeleted(state);
      return true;
    }
    if (answer.error.kind === "conflict" || answer.error.kind === "invalid")
      return reread(state, context, client, ref);
    state.log.warn({ error: answer.error }, "finalizer not removed");
    return false;
  });
}

async function reread(
  state: ReplicaState,
  context: RunnerContext,
  client: KubeClient,
  ref: { readonly name: string; readonly namespace: string | undefined },
): Promise<boolean> {
  const live = await client.get(INFERENCE_REPLICAS, ref);
  if (live.ok && live.value.metadata.uid === state.uid) {
    setFromResponse(state, live.value, context.moment());
    return true;
  }
  if (live.ok || live.error.kind === "notFound") {
    markDeleted(state);
    return true;
  }
  return false;
}

/** Removes the files and the state of a replica that has no process left. */
async function forgetReplica(state: ReplicaState, context: RunnerContext): Promise<StepOutcome> {
  await whenRecordWritten(state);
  runOf(state)?.instance.close();
  rmSync(state.dir, { recursive: true, force: true });
  context.desiredFiles.remove(state.uid);
  context.ports.store.release(state.uid);
  context.admission.forget(state.uid);
  context.states.delete(state.uid);
  state.log.info({}, "replica removed");
  return "later";
}
