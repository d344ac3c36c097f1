/** Plans the steps for kinds of which a service has at most one object. Pure. */
import type { Owned, OwnedKind } from "./kinds.ts";
import type { ServiceStep } from "./steps.ts";
import { removals } from "./teardown.ts";

/** Applies the desired object of a kind, if any, and removes the others. */
export function stepsOf<K extends OwnedKind>(
  what: K,
  desired: Owned[K] | undefined,
  existing: readonly Owned[K][],
): ServiceStep[] {
  const current = existing.find(({ metadata }) => metadata.name === desired?.metadata.name);
  const others = existing.filter((one) => one !== current);
  const removed = removals(what, others, "the spec no longer requests it");
  if (desired === undefined) return removed;
  const because = "the spec requests it";
  return [{ do: "apply", what, object: desired, current, because } as unknown as ServiceStep, ...removed];
}
