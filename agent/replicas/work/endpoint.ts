/** The replica's place in its Service: announced when it answers, withdrawn on the first evidence that it will not. */

import type { RunnerContext } from "../context.ts";
import type { EndpointResult } from "../ports.ts";
import { type ReplicaState, refOf } from "../state.ts";

/** Writes the endpoint as ready. From the attempt on it counts as possibly announced, answer or not. */
export function announce(state: ReplicaState, context: RunnerContext, port: number): void {
  const ref = refOf(state);
  const address = context.ports.address();
  if (ref === undefined || address === undefined) return;
  state.jobs.run(
    "endpoint",
    () => {
      state.run.slice = { ...state.run.slice, wasExposed: true };
      return note(state, context, context.ports.endpoints.announce(ref, { address, port }));
    },
    { retryAs: "announce" },
  );
}

/** Writes the endpoint as not ready, not serving, terminating. */
export function withdraw(state: ReplicaState, context: RunnerContext): void {
  const ref = refOf(state);
  if (ref === undefined) return;
  const work = (): Promise<boolean> => note(state, context, context.ports.endpoints.withdraw(ref));
  state.jobs.run("endpoint", work, { retryAs: "withdraw" });
}

async function note(
  state: ReplicaState,
  context: RunnerContext,
  answer: Promise<EndpointResult>,
): Promise<boolean> {
  const result = await answer;
  const { lastError: _, ...slice } = state.run.slice;
  if (result.ok) {
    state.run.slice = slice;
    return true;
  }
  context.log.warn({ uid: state.uid, message: result.message }, "endpoint not written");
  state.run.slice = { ...slice, lastError: result.message };
  return false;
}
