/** The slots of a service: the replicas of each slot, and the revision that it should have. Pure. */

import { isConditionTrue } from "../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { HostsRolloutInput, RolloutSlot } from "./types.ts";

/** True if the agent reports Ready, and the controller can reach the agent. */
export function isServingReplica(replica: InferenceReplica): boolean {
  const { phase, conditions } = replica.status ?? {};
  return !isBeingDeleted(replica) && phase === "Ready" && isConditionTrue(conditions, "HostReachable");
}

/** A replica of the last serving revision keeps its slot while it is briefly down, unless it fails. */
export function holdsSlot(
  replica: InferenceReplica,
  { fallback, failing, displaced }: HostsRolloutInput,
): boolean {
  const { name } = replica.metadata;
  if (isServingReplica(replica)) return true;
  return revisionOfReplica(replica) === fallback && !failing.has(name) && !displaced.has(name);
}

/** True if the replica fails or recently failed, so no old replica is stopped for its revision. */
export function isUnproven(
  { metadata }: InferenceReplica,
  { failing, unsettled }: HostsRolloutInput,
): boolean {
  return failing.has(metadata.name) || unsettled.has(metadata.name);
}

/** Ordinal of the slot, from the replica's name: `<service>-<ordinal>-<hash>`. */
export function ordinalOf({ metadata }: InferenceReplica): number {
  const match = /-(\d+)-[0-9a-z]+$/.exec(metadata.name);
  return match?.[1] === undefined ? Number.POSITIVE_INFINITY : Number(match[1]);
}

export function revisionOfReplica({ spec }: InferenceReplica): string {
  return spec.template.revision;
}

/** The slots in the order in which they are changed: draining hosts first, then host by host, then by ordinal. */
export function rolloutSlots(input: HostsRolloutInput, revision: string, isStopped: boolean): RolloutSlot[] {
  const slots = Array.from({ length: input.desired }, (_, ordinal): RolloutSlot => {
    const replicas = input.replicas.filter(
      (replica) => !isBeingDeleted(replica) && ordinalOf(replica) === ordinal,
    );
    const target = isStopped ? targetWhileStopped(replicas, input, revision) : revision;
    const isCurrent = (replica: InferenceReplica) => revisionOfReplica(replica) === target;
    const [current, old] = [replicas.filter(isCurrent), replicas.filter((one) => !isCurrent(one))];
    const retained = isStopped ? retainedRevision(current, old, input) : undefined;
    return { ordinal, target, current, old, retained };
  });
  return slots
    .map((slot) => ({ slot, place: placeOf(slot, input) }))
    .sort((a, b) => (a.place < b.place ? -1 : a.place > b.place ? 1 : 0))
    .map(({ slot }) => slot);
}

/** While a rollout is stopped, slots without the new revision keep the old one, even if they move or are empty. */
function targetWhileStopped(
  replicas: readonly InferenceReplica[],
  { fallback, known }: HostsRolloutInput,
  revision: string,
): string {
  if (replicas.some((replica) => revisionOfReplica(replica) === revision)) return revision;
  const before = (replicas.find(isServingReplica) ?? replicas[0])?.spec.template.revision ?? fallback;
  return before !== undefined && known.has(before) ? before : revision;
}

/** The old revision to retain, or to recreate, in a slot where the new revision fails. */
function retainedRevision(
  current: readonly InferenceReplica[],
  old: readonly InferenceReplica[],
  input: HostsRolloutInput,
): string | undefined {
  const { known, fallback } = input;
  const [first] = current;
  if (first === undefined || !current.every((one) => isUnproven(one, input))) return undefined;
  const retained = (old.find(isServingReplica) ?? old[0])?.spec.template.revision ?? fallback;
  if (retained === undefined || retained === revisionOfReplica(first)) return undefined;
  return known.has(retained) ? retained : undefined;
}

/** The retained old revision of a slot, as a separate slot. */
export function retainedSlot({ ordinal, old, retained }: RolloutSlot): RolloutSlot | undefined {
  if (retained === undefined) return undefined;
  const isRetained = (replica: InferenceReplica) => revisionOfReplica(replica) === retained;
  return {
    ordinal,
    target: retained,
    current: old.filter(isRetained),
    old: old.filter((one) => !isRetained(one)),
  };
}

function placeOf({ current, old }: RolloutSlot, { draining }: HostsRolloutInput): string {
  const host = (old.find(isServingReplica) ?? old[0] ?? current[0])?.spec.template.hostName ?? "";
  return `${draining.has(host) ? 0 : 1} ${host}`;
}
