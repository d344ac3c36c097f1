/** Makes the replicas that a pass creates count in placement and in the next pass, before the watches show them. */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { keyOf } from "../../../src/api/names.ts";
import { claimOfReplica } from "../../../src/capacity/placement/claims.ts";
import { EARNED_MS } from "../../../src/capacity/placement/priority.ts";
import type { HostClaim, Placed } from "../../../src/capacity/placement/types.ts";
import type { Moment } from "../../../src/util/moment.ts";
import type { ApplyOutcome } from "../apply/run.ts";
import type { ServiceStep } from "../owned/steps.ts";
import type { HostsPathPorts } from "./ports.ts";
import { ordinalOf } from "./rollout/slots.ts";

/** The claims of replicas that are about to be created, with the priority class that they earned in the queue. */
export function assumedClaims(
  steps: readonly ServiceStep[],
  service: InferenceService,
  placed: readonly Placed[],
  moment: Moment,
): HostClaim[] {
  return steps.flatMap((step) => {
    if (step.do !== "create" || step.what !== "replicas") return [];
    const claim = claimOfReplica(step.object, service, moment);
    const earned = placed.find(({ ordinal }) => ordinal === ordinalOf(step.object))?.earned;
    if (claim.eviction === undefined || earned === undefined) return [claim];
    const untilMs = moment.monotonicMs + EARNED_MS;
    return [{ ...claim, eviction: { ...claim.eviction, earned: { priority: earned, untilMs } } }];
  });
}

/** A created replica stays assumed until the watch shows it; a failed create frees its claim. */
export function settleClaims(
  { watches, scheduler }: HostsPathPorts,
  claims: readonly HostClaim[],
  { created }: ApplyOutcome,
): void {
  const made = new Set(created.map(({ metadata }) => keyOf(metadata)));
  for (const { replica } of claims) {
    if (!made.has(replica) || watches.replicas.get(replica) !== undefined) scheduler.forgetAssumed(replica);
  }
}

/** Remembers created and removed replicas that the watches do not show yet, for the next pass. */
export function noteWritten(
  { watches, clock, memory }: HostsPathPorts,
  { created, removed }: ApplyOutcome,
): void {
  const atMs = clock.monotonicMs();
  for (const replica of created) {
    const { namespace, name, uid } = replica.metadata;
    const isSeen = watches.replicas.get(keyOf({ namespace, name }))?.metadata.uid === uid;
    if (!isSeen) memory.noteCreated(replica, atMs);
  }
  for (const { replica } of removed) memory.noteRemoved(replica, atMs);
}
