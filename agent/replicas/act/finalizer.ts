/** Removes the finalizer, by a patch that applies only to the exact object and version that was read. */
import { FINALIZER_ENGINE } from "../../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import type { RunnerContext } from "../context.ts";
import { type ReplicaState, replicaOf, setAnswer, setGone } from "../state/state.ts";

/** A job; on a conflict the object is read again and the next try is made with that. */
export function removeFinalizer(state: ReplicaState, context: RunnerContext): void {
  state.jobs.run("finalizer", async () => {
    const { metadata } = replicaOf(state) ?? {};
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
      setAnswer(state, answer.value, context.moment());
      return true;
    }
    if (answer.error.kind === "notFound") {
      setGone(state);
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
    setAnswer(state, live.value, context.moment());
    return true;
  }
  if (live.ok || live.error.kind === "notFound") {
    setGone(state);
    return true;
  }
  return false;
}
