/** What would make a service fit on the hosts where it nearly does. Pure. */
import { suggestFor } from "../../../src/placement/fit/variants.ts";
import type { Miss } from "../../../src/placement/types.ts";
import { claimWithOf } from "../../placement/claim-with.ts";
import type { ServiceDraft } from "../plan/plan.ts";

/** Each takes some hundred estimates. */
const MOST_HINTS = 3;

/** By host: "fits with contextSize 16384 (now 32768): 30.1 GiB". */
export function hintsFor(
  { resolution, observed }: ServiceDraft,
  misses: readonly Miss[],
): ReadonlyMap<string, string> {
  const hints = new Map<string, string>();
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") return hints;
  const { claimBytes } = resolution.claim.memory;
  const claimWith = claimWithOf(resolution, observed);
  for (const { host, code, shortBytes } of misses
    .filter(({ shortBytes }) => shortBytes !== undefined)
    .slice(0, MOST_HINTS)) {
    if (code !== "HostMemoryShort" || shortBytes === undefined) continue;
    const suggestions = suggestFor(claimBytes - shortBytes, resolution.template.engine, claimWith);
    if (suggestions.length > 0)
      hints.set(host, `fits with ${suggestions.map(({ text }) => text).join("; or with ")}`);
  }
  return hints;
}
