/** Suggests settings with which a service would fit on hosts that are only short of memory. Pure. */

import { claimWith, memoryOn } from "../../../src/capacity/claim.ts";
import { suggestFor } from "../../../src/capacity/fit/variants.ts";
import type { PlacementMiss } from "../../../src/capacity/placement/types.ts";
import { hostAccelerator } from "../../../src/engines/registry.ts";
import type { ServiceDraft } from "../plan/plan.ts";

/** Maximum number of hosts with hints, each of which requires a few hundred estimates. */
const MAX_HINTS = 3;

/** Hints by host, for example "fits with contextSize 16384 (now 32768): 30.1 GiB". */
export function hintsFor(
  { resolution, observed }: ServiceDraft,
  misses: readonly PlacementMiss[],
): ReadonlyMap<string, string> {
  const hints = new Map<string, string>();
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") return hints;
  const { claim, template, model } = resolution;
  const claimFor = claimWith({
    template,
    model,
    draftModel: observed.draftModel,
    replicas: observed.replicas,
  });
  for (const { host, code, shortBytes } of misses
    .filter(({ shortBytes }) => shortBytes !== undefined)
    .slice(0, MAX_HINTS)) {
    if (code !== "HostMemoryShort" || shortBytes === undefined) continue;
    const on = observed.hosts.get(host);
    const { claimBytes } = memoryOn(claim, on);
    const accelerator = on === undefined ? undefined : hostAccelerator(on.status?.info?.os);
    const backend = { accelerator, compute: on?.status?.memory?.compute };
    const suggestions = suggestFor(claimBytes - shortBytes, template.engine, claimFor, backend);
    if (suggestions.length > 0)
      hints.set(host, `fits with ${suggestions.map(({ text }) => text).join("; or with ")}`);
  }
  return hints;
}
