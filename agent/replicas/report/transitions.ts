/** A replica's recent transitions, for status and Events. Pure. */

import {
  type ReplicaPhase,
  type ReplicaTransition,
  TRANSITION_MESSAGE_MAX,
  TRANSITIONS_MAX,
} from "../../../src/api/inference-replica.ts";
import { truncate } from "../../../src/util/text.ts";
import type { ReplicaPlan } from "../state/step.ts";

/** Phases that last milliseconds are not reported. */
const SILENT: ReadonlySet<ReplicaPhase> = new Set(["Pending", "Admitting"]);
const BLOCKED_PHASES: ReadonlySet<ReplicaPhase> = new Set(["Waiting", "Backoff", "Failed"]);

/** True if the phase has changed, or the reason that blocks the replica. */
export function isTransition(
  before: { readonly phase?: string | undefined; readonly reason?: string | undefined } | undefined,
  after: Pick<ReplicaPlan, "phase" | "reason">,
): boolean {
  if (SILENT.has(after.phase)) return false;
  if (before?.phase !== after.phase) return true;
  return BLOCKED_PHASES.has(after.phase) && before.reason !== after.reason;
}

/** Appends the plan if it is a transition; otherwise returns the same list. */
export function addTransition(
  before: readonly ReplicaTransition[],
  { phase, reason, message }: Pick<ReplicaPlan, "phase" | "reason" | "message">,
  iso: string,
): readonly ReplicaTransition[] {
  if (!isTransition(before.at(-1), { phase, reason })) return before;
  const next = { at: iso, phase, reason, message: truncate(message, TRANSITION_MESSAGE_MAX) };
  return [...before, next].slice(-TRANSITIONS_MAX);
}
