/** What a service would claim with other settings, by the same estimate. Pure. */
import type { ClaimWith } from "../../src/placement/fit/variants.ts";
import { claimOf } from "../service/plan/claim.ts";
import type { ServiceObserved } from "../service/plan/observed.ts";
import type { Resolved } from "../service/plan/resolve.ts";

export function claimWithOf(
  { template }: Resolved,
  { model, draftModel }: Pick<ServiceObserved, "model" | "draftModel">,
): ClaimWith {
  return (change) => {
    if (model === undefined) return undefined;
    const engine = { ...template.engine, ...change };
    // A type that was given as text wins over the enum.
    if (change.cacheTypeK !== undefined) delete engine.cacheTypeCustomK;
    if (change.cacheTypeV !== undefined) delete engine.cacheTypeCustomV;
    const claim = claimOf({ template: { ...template, engine }, model, draftModel, replicas: [] });
    return claim.at === "estimated" ? claim.memory.claimBytes : undefined;
  };
}
