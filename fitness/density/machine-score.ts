/** The score of machines for a model by measured speed, utilization and cost, as placement computes it. Pure. */
import { hostSpeed, utilizationOf } from "../../src/capacity/placement/machine.ts";
import { scoreMachine, scoreScale } from "../../src/capacity/score.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import type { Density, DensitySite } from "./density.ts";

export interface MachineRow {
  readonly deviceClass: string | null;
  /** Measured by the benchmark of the class, or else the live rate; null if neither is known. */
  readonly tokensPerSecond: number | null;
  readonly basis: string | null;
  /** From 0 to 1. */
  readonly utilization: number | null;
  readonly cost: number | null;
  readonly score: number;
  readonly why: string;
}

/** Machines are compared with all machines of the cluster. */
export function machineScorer(density: Density) {
  const scales = new Map<CatalogRecord, ReturnType<typeof scoreScale>>();
  return (site: DensitySite, record: CatalogRecord): MachineRow => {
    const scale =
      scales.get(record) ?? scoreScale(density.sites().map((one) => scoreInputsOf(density, one, record)));
    scales.set(record, scale);
    const inputs = scoreInputsOf(density, site, record);
    const { score, why } = scoreMachine({ name: site.place.name, ...inputs }, scale, density.weights);
    return {
      deviceClass: site.place.deviceClass ?? null,
      tokensPerSecond: inputs.tokensPerSecond?.value ?? null,
      basis: inputs.tokensPerSecond?.basis ?? null,
      utilization: inputs.utilization ?? null,
      cost: inputs.cost ?? null,
      score: Math.round(score * 100) / 100,
      why,
    };
  };
}

function scoreInputsOf(density: Density, { place, held }: DensitySite, record: CatalogRecord) {
  const measured = place.machine.at === "known" ? place.machine.machine.measured : [];
  const live = measured.find(({ source }) => density.fits.recordOf(source) === record)?.tokensPerSecond;
  return {
    tokensPerSecond: hostSpeed(place, density.speedsOf(record), live || undefined),
    utilization: place.kind === "Node" ? place.gpuUtilization : utilizationOf(held.values()),
    cost: place.cost,
  };
}
