/** The slots of a service: which replica holds each, and which revision it should be. Pure. */
import { isConditionTrue } from "../../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { HostsRolloutInput, RolloutSlot } from "./types.ts";

/** True if it serves: its agent reports Ready, and the agent is alive. */
export function isServingReplica({ metadata, status }: InferenceReplica): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase === "Ready" &&
    isConditionTrue(status.conditions, "HostReachable")
  );
}

/** A replica of the revision that served last keeps its slot while it is briefly down, unless it fails. */
export function holdsSlot(
  replica: InferenceReplica,
  { fallback, failing, displaced }: HostsRolloutInput,
): boolean {
  const { name } = replica.metadata;
  if (isServingReplica(replica)) return true;
  return revisionOfReplica(replica) === fallback && !failing.has(name) && !displaced.has(name);
}

/** It fails, or recently did: no old replica is stopped for its revision. */
export function isUnproven(
  { metadata }: InferenceReplica,
  { failing, unsettled }: HostsRolloutInput,
): boolean {
  return failing.has(metadata.name) || unsettled.has(metadata.name);
}

/** The slot in a replica's name: `<service>-<ordinal>-<hash>`. */
export function ordinalOf({ metadata }: InferenceReplica): number {
  const match = /-(\d+)-[0-9a-z]+$/.exec(metadata.name);
  return match?.[1] === undefined ? Number.POSITIVE_INFINITY : Number(match[1]);
}

export function isBeingDeleted({ metadata }: InferenceReplica): boolean {
  return metadata.deletionTimestamp !== undefined;
}

export function revisionOfReplica({ spec }: InferenceReplica): string {
  return spec.template.revision;
}

/**
 * In the order in which they are changed: hosts that are being drained first, then host by host, then by
 * ordinal.
 */
export function rolloutSlots(input: HostsRolloutInput, revision: string, isStopped: boolean): RolloutSlot[] {
  const slots = Array.from({ length: input.want }, (_, ordinal): RolloutSlot => {
    const here = input.replicas.filter(
      (replica) => !isBeingDeleted(replica) && ordinalOf(replica) === ordinal,
    );
    const target = isStopped ? targetWhileStopped(here, input, revision) : revision;
    const isCurrent = (replica: InferenceReplica) => revisionOfReplica(replica) === target;
    const [current, old] = [here.filter(isCurrent), here.filter((one) => !isCurrent(one))];
    const held = isStopped ? heldBeside(current, old, input) : undefined;
    return { ordinal, target, current, old, held };
  });
  return slots
    .map((slot) => ({ slot, place: placeOf(slot, input) }))
    .sort((a, b) => (a.place < b.place ? -1 : a.place > b.place ? 1 : 0))
    .map(({ slot }) => slot);
}

/** Slots without the new revision keep the old one, also when they move or are empty. */
function targetWhileStopped(
  here: readonly InferenceReplica[],
  { fallback, known }: HostsRolloutInput,
  revision: string,
): string {
  if (here.some((replica) => revisionOfReplica(replica) === revision)) return revision;
  const held = (here.find(isServingReplica) ?? here[0])?.spec.template.revision ?? fallback;
  return held !== undefined && known.has(held) ? held : revision;
}

/** A lost old replica is recreated: a slot where the new revision fails is not left without one. */
function heldBeside(
  current: readonly InferenceReplica[],
  old: readonly InferenceReplica[],
  input: HostsRolloutInput,
): string | undefined {
  const { known, fallback } = input;
  const [first] = current;
  if (first === undefined || !current.every((one) => isUnproven(one, input))) return undefined;
  const held = (old.find(isServingReplica) ?? old[0])?.spec.template.revision ?? fallback;
  if (held === undefined || held === revisionOfReplica(first)) return undefined;
  return known.has(held) ? held : undefined;
}

/** The old revision kept beside a failing target, as a slot of its own. */
export function heldSlot({ ordinal, old, held }: RolloutSlot): RolloutSlot | undefined {
  if (held === undefined) return undefined;
  const isHeld = (replica: InferenceReplica) => revisionOfReplica(replica) === held;
  return { ordinal, target: held, current: old.filter(isHeld), old: old.filter((one) => !isHeld(one)) };
}

function placeOf({ current, old }: RolloutSlot, { draining }: HostsRolloutInput): string {
  const host = (old.find(isServingReplica) ?? old[0] ?? current[0])?.spec.template.hostName ?? "";
  return `${draining.has(host) ? 0 : 1} ${host}`;
}
