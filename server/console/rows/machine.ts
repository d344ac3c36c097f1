/** Figures of a machine that the density state knows. */
import type { Density } from "../../../fitness/density/density.ts";
import type { System } from "../../../fitness/llmfit/system.ts";
import type { Moment } from "../../../src/util/moment.ts";

export interface MachineFigures {
  readonly system: System;
  readonly budgetBytes: number | undefined;
  readonly leftBytes: number | undefined;
  /** Models of the catalog that fit; undefined until they are scored. */
  readonly fits: number | undefined;
  readonly isStale: boolean;
  readonly lastSeenMs: number | undefined;
  /** Number of GPUs that pods use as a whole; 0 if memory is shared. */
  readonly wholeGpus: number;
  readonly engines: readonly { readonly name: string; readonly version?: string }[];
  readonly models: number;
}

/** Undefined for a machine that the state does not have. */
export function machineFigures(
  density: Density,
  kind: "Host" | "Node",
  name: string,
  now: Moment,
): MachineFigures | undefined {
  const site = density.site(name, kind);
  if (site === undefined) return undefined;
  const { place, group } = site;
  const isScored = group !== undefined && group.fits.computed === density.fits.records.length;
  return {
    system: place.system,
    budgetBytes: place.machine.at === "known" ? place.machine.machine.budgetBytes : undefined,
    leftBytes: density.leftBytes(site),
    fits: isScored ? density.summaryOf(site).count : undefined,
    isStale: density.isStale(site, now),
    lastSeenMs: density.lastSeenMs(site, now),
    wholeGpus: place.wholeGpus,
    engines: place.runtimes,
    models: place.models.length,
  };
}
