/** Lets the object go, by a patch that can only hit the very object and version that was looked at. */
import { FINALIZER_ENGINE } from "../../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import type { RunnerContext } from "../context.ts";
import type { ReplicaState } from "../state.ts";
import { newerOf } from "./newest.ts";

/** A job; on a conflict the object is read again and the next try is made with that. */
export function removeFinalizer(state: ReplicaState, context: RunnerContext): void {
  state.jobs.run("finalizer", async () => {
    const { metadata } = state.desired ?? {};
    const index = metadata?.finalizers?.indexOf(FINALIZER_ENGINE) ?? -1;
    if (metadata === undefined || index < 0) return true;
    const ref = { name: metadata.name, namespace: metadata.namespace };
    const answer = await context.ports.client.jsonPatch(INFERENCE_REPLICAS, ref, [
      { op: "test", path: "/metadata/uid", value: metadata.uid },
      { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
      { op: "test", path: `/metadata/finalizers/${index}`, value: FINALIZER_ENGINE },
      { op: "remove", path: `/metadata/finalizers/${index}` },
    ]);
    if (answer.ok) {
      state.log.info({}, "finalizer removed");
      state.desired = newerOf(state.desired, answer.value);
      return true;
    }
    if (answer.error.kind === "notFound") {
      state.isGone = true;
      return true;
    }
    if (answer.error.kind === "conflict" || answer.error.kind === "invalid")
      return reread(state, context, ref);
    state.log.warn({ error: answer.error }, "finalizer not removed");
    return false;
  });
}

async function reread(
  state: ReplicaState,
  context: RunnerContext,
  ref: { readonly name: string; readonly namespace: string | undefined },
): Promise<boolean> {
  const live = await context.ports.client.get(INFERENCE_REPLICAS, ref);
  if (live.ok && live.value.metadata.uid === state.uid) {
    state.desired = newerOf(state.desired, live.value);
    return true;
  }
  if (live.ok || live.error.kind === "notFound") {
    state.isGone = true;
    return true;
  }
  return false;
}
