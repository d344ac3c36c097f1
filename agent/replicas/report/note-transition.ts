/** Keeps what a replica went through: in memory for the next status, on disk for the next agent. */
import type { ReplicaPlan } from "../../../src/replica/step.ts";
import { addTransition } from "../../../src/replica/transitions.ts";
import type { RunnerContext } from "../context.ts";
import { writeHistory } from "../files/history.ts";
import type { ReplicaState } from "../state.ts";
import { isoSeconds } from "./iso-seconds.ts";

/** Also while nobody can be told: an outage of the API server may outlast the agent. */
export function noteTransition(state: ReplicaState, plan: ReplicaPlan, context: RunnerContext): void {
  const { history, dir } = state;
  // A state folder that was lost: what the API server shows is all that is left.
  const known =
    history.transitions.length > 0 ? history.transitions : (state.desired?.status?.transitions ?? []);
  const next = addTransition(known, plan, isoSeconds(context.ports.clock.nowMs()));
  if (next === known) return;
  state.history = { ...history, transitions: [...next] };
  try {
    writeHistory(dir, state.history);
  } catch (err) {
    state.log.warn({ err }, "could not write the replica's history");
  }
}
