/** The replica's endpoint in its Service: announced once the engine answers, withdrawn on the first evidence that it will not. */

import type { RunnerContext } from "../context/context.ts";
import type { EndpointResult } from "../context/ports.ts";
import { runOf, setSlice } from "../state/run.ts";
import { isSealed, type ReplicaState, refOf } from "../state/state.ts";

const NOT_CONNECTED: EndpointResult = {
  ok: false,
  message: "not connected to the API server yet",
};

/** Writes the endpoint as ready. From the attempt on the endpoint counts as announced, even without an answer. */
export function announceEndpoint(state: ReplicaState, context: RunnerContext, port: number): void {
  const ref = refOf(state);
  // The address that the engine listens on: right after a move it differs from the host's.
  const address = runOf(state)?.file.address;
  if (ref === undefined || address === undefined) return;
  const endpoint = { address, port, isSealed: isSealed(state) };
  state.jobs.run("announce", async () => {
    setSlice(state, { ...state.slice, wasExposed: true, mayArrive: true });
    const result = await (context.cluster()?.endpoints.announce(ref, endpoint) ?? NOT_CONNECTED);
    return state.jobs.isRunning("withdraw") || note(state, result);
  });
}

/** Writes the endpoint as not ready, not serving, terminating. The withdrawal overtakes a pending announcement. */
export function withdrawEndpoint(state: ReplicaState, context: RunnerContext): void {
  const ref = refOf(state);
  if (ref === undefined) return;
  state.jobs.run("withdraw", async () => {
    const result = await (context.cluster()?.endpoints.withdraw(ref) ?? NOT_CONNECTED);
    if (state.jobs.isRunning("announce")) return true;
    return note(state, result);
  });
}

function note(state: ReplicaState, result: EndpointResult): boolean {
  if (result.ok) {
    state.repeated.resolved("write the endpoint");
    // Writes are sequential: an earlier attempt has arrived by now or never will.
    setSlice(state, { ...state.slice, lastError: undefined, mayArrive: false });
    return true;
  }
  state.repeated.found("write the endpoint", result.message, { message: result.message });
  setSlice(state, { ...state.slice, lastError: result.message });
  return false;
}
