/** Simulates the placement of a model in addition to the current replicas. Pure. */

import { isUsable, type UsableMachines } from "../../src/capacity/runs-on.ts";
import type { Moment } from "../../src/util/moment.ts";
import { compareText } from "../../src/util/text.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { beyondTraining } from "../scoring/claim.ts";
import { type FitLevel, fitLevel, useCaseOf } from "../scoring/score.ts";
import { gibOf, round } from "../scoring/units.ts";
import type { Density, DensitySite, HeldMemory } from "./density.ts";
import { type Fit, fitOn, type SizingOptions } from "./fits.ts";
import type { DensityMachine } from "./place.ts";
import { measuredOf, percent } from "./views.ts";

export interface SimulateRequest extends SizingOptions, Partial<UsableMachines> {
  /** Undefined: only `memoryGb` counts. */
  readonly record: CatalogRecord | undefined;
  /** GiB in place of the claim; required without a record. */
  readonly memoryGb?: number;
  /** Names of machines that are not candidates, and NAMESPACE/NAME of services whose memory counts as free. */
  readonly exclude?: readonly string[];
}

export interface SimulatedRow {
  readonly nodeName: string;
  readonly kind: "Host" | "Node";
  readonly currentScore: number;
  readonly fitLevel: FitLevel;
  readonly availableMemoryGb: number;
  readonly requiredMemoryGb: number;
  readonly remainingMemoryGb: number;
  readonly utilizationPct: number;
  /** Empty if the request has only `memoryGb`. */
  readonly quantization: string;
  readonly estimatedTps: number;
  readonly stale: boolean;
  readonly schedulable: boolean;
}

const GIB = 1024 ** 3;

/** Best first; machines that do not fit last. */
export function simulate(
  density: Density,
  request: SimulateRequest,
  now: Moment,
): { readonly rankedNodes: readonly SimulatedRow[]; readonly canFitAnywhere: boolean } {
  const rankedNodes = density
    .sites()
    .filter(({ place }) => request.exclude?.includes(place.name) !== true && isCandidate(place, request))
    .flatMap((site) => rowOf(density, withoutServices(site, request.exclude), request, now) ?? [])
    .sort(
      (a, b) =>
        rankOf(a) - rankOf(b) || b.currentScore - a.currentScore || compareText(a.nodeName, b.nodeName),
    );
  const canFitAnywhere = rankedNodes.some((row) => rankOf(row) === 0);
  return { rankedNodes, canFitAnywhere };
}

/** The machine as if these services did not run. */
function withoutServices(site: DensitySite, names: readonly string[] = []): DensitySite {
  const isLeftOut = ({ namespace, service }: HeldMemory) => names.includes(`${namespace}/${service}`);
  const stopped = [...site.held.values()].filter(isLeftOut);
  if (stopped.length === 0) return site;
  const freed = stopped.reduce((sum, { bytes }) => sum + bytes, 0);
  const held = new Map([...site.held].filter(([, one]) => !isLeftOut(one)));
  const { availableBytes } = site.place;
  const available = availableBytes === undefined ? undefined : availableBytes + freed;
  return { ...site, place: { ...site.place, availableBytes: available }, held };
}

function isCandidate(place: DensityMachine, request: SimulateRequest): boolean {
  const { kind, machine } = place;
  const { accelerator } = request;
  const isAlike =
    accelerator === undefined || machine.at !== "known" || machine.machine.accelerator === accelerator;
  return isUsable(place, request) && (kind === "Host" || isAlike);
}

function rankOf({ fitLevel: level, stale, schedulable }: SimulatedRow): number {
  if (level === "too_tight") return 2;
  return stale || !schedulable ? 1 : 0;
}

/** Undefined if the machine or the model cannot be sized. */
function rowOf(
  density: Density,
  site: DensitySite,
  request: SimulateRequest,
  now: Moment,
): SimulatedRow | undefined {
  const left = density.leftBytes(site);
  const { machine } = site.place;
  if (left === undefined || machine.at !== "known") return undefined;
  const { record, memoryGb, quantization, contextSize, slots, useCase } = request;
  // A budget of 0 is invalid, so a full machine gets one byte.
  const available = {
    ...machine.machine,
    budgetBytes: Math.max(1, left),
    measured: measuredOf(density, site, record),
  };
  const fit =
    record === undefined
      ? undefined
      : fitOn(record, available, { quantization, contextSize, slots, useCase });
  if (fit === undefined && memoryGb === undefined) return undefined;
  const required = memoryGb === undefined ? (fit?.claimBytes ?? 0) : memoryGb * GIB;
  const level = levelOf(required / available.budgetBytes, fit, request);
  return {
    nodeName: site.place.name,
    kind: site.place.kind,
    currentScore: level === "too_tight" ? 0 : round(fit?.score ?? 0, 1),
    fitLevel: level,
    availableMemoryGb: gibOf(left) ?? 0,
    requiredMemoryGb: gibOf(required) ?? round(required / GIB, 2),
    remainingMemoryGb: gibOf(Math.max(0, left - required)) ?? 0,
    utilizationPct: percent(required, left),
    quantization: fit?.quantization ?? "",
    estimatedTps: round(fit?.tokensPerSecond ?? 0, 1),
    stale: density.isStale(site, now),
    schedulable: site.place.isSchedulable,
  };
}

/** Again, because the request may say how much memory it needs. */
function levelOf(
  share: number,
  fit: Fit | undefined,
  { useCase, contextSize: claimedContext, slots }: SimulateRequest,
): FitLevel {
  if (fit === undefined) return fitLevel(share);
  const { record, tokensPerSecond } = fit;
  return fitLevel(share, {
    useCase: useCase ?? useCaseOf(record),
    tokensPerSecond,
    isBeyondTraining: beyondTraining(record, { claimedContext, slots }) !== undefined,
  });
}
