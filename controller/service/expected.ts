/** What a pass creates counts at once, in placement and in the next pass, although the copies do not show it yet. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { EARNED_MS } from "../../src/placement/priority.ts";
import type { HostClaim, Placed } from "../../src/placement/types.ts";
import { claimOfReplica, type Moment } from "../placement/claims.ts";
import type { Outcome } from "./apply/run.ts";
import type { ServiceStep } from "./plan/steps.ts";
import type { ServicePorts } from "./ports.ts";
import { ordinalOf } from "./rollout/slots.ts";

/** What is about to be created, with the class that waiting has earned it. */
export function claimsOf(
  steps: readonly ServiceStep[],
  service: InferenceService,
  placed: readonly Placed[],
  moment: Moment,
): HostClaim[] {
  return steps.flatMap((step) => {
    if (step.do !== "create" || step.what !== "replica") return [];
    const claim = claimOfReplica(step.object, service, moment);
    const earned = placed.find(({ ordinal }) => ordinal === ordinalOf(step.object))?.earned;
    if (claim.eviction === undefined || earned === undefined) return [claim];
    const untilMs = moment.monotonicMs + EARNED_MS;
    return [{ ...claim, eviction: { ...claim.eviction, earned: { priority: earned, untilMs } } }];
  });
}

/** What was created stays expected until the watch shows it; what was not is free again. */
export function settleClaims(
  { caches, ledger }: ServicePorts,
  claims: readonly HostClaim[],
  { created }: Outcome,
): void {
  const made = new Set(created.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`));
  for (const { replica } of claims) {
    if (!made.has(replica) || caches.replicas.get(replica) !== undefined) ledger.settle(replica);
  }
}

/** The copies do not show it yet, and the next pass must not decide without it. */
export function noteWritten({ caches, clock, memory }: ServicePorts, { created, removed }: Outcome): void {
  const atMs = clock.monotonicMs();
  for (const replica of created) {
    const { namespace, name, uid } = replica.metadata;
    const isSeen = caches.replicas.get(`${namespace}/${name}`)?.metadata.uid === uid;
    if (!isSeen) memory.noteCreated(replica, atMs);
  }
  for (const { replica } of removed) memory.noteRemoved(replica, atMs);
}
