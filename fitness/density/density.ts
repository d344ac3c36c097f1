/** The state of the cluster's machines: watches write it, routes and metrics read it. Time is an argument. Pure. */

import type { BenchmarkTable } from "../../src/capacity/benchmark/table.ts";
import type { HostClaim } from "../../src/capacity/placement/types.ts";
import { DEFAULT_SCORE_WEIGHTS, type ScoreWeights } from "../../src/capacity/score.ts";
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import type { Moment } from "../../src/util/moment.ts";
import { compareText } from "../../src/util/text.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { calibrate, type SpeedRatio, speedRatios } from "../scoring/calibration.ts";
import { type Fit, type FitIndex, type MachineClass, type Summary, summarize } from "./fits.ts";
import type { DensityMachine } from "./place.ts";

/** A replica on a host, or a pod on a node, with its reservation. */
export interface HeldMemory {
  readonly namespace: string;
  readonly service: string;
  readonly phase: string;
  readonly bytes: number;
  readonly gpus: number;
  readonly load?: HostClaim["load"];
}

/** A machine with its class and its reservations. */
export interface DensitySite {
  readonly place: DensityMachine;
  /** Undefined if its machine is unusable. */
  readonly group: MachineClass | undefined;
  /** Reservations by replica or pod. */
  readonly held: ReadonlyMap<string, HeldMemory>;
}

export interface Density {
  readonly fits: FitIndex;
  /** Weights of the score of machines. */
  readonly weights: ScoreWeights;
  /** `place` is undefined if the object was deleted. */
  readonly setPlace: (kind: DensityMachine["kind"], name: string, place: DensityMachine | undefined) => void;
  readonly setHeld: (
    key: string,
    on: { readonly kind: DensityMachine["kind"]; readonly name: string } | undefined,
    held?: HeldMemory,
  ) => void;
  /** Measured results, which correct the speeds of machines of the same class and of neighboring classes. */
  readonly setBenchmarks: (table: BenchmarkTable) => void;
  /** The host has renewed its Lease; `renewedAtMs` is from its own clock. */
  readonly leaseRenewed: (host: string, renewedAtMs: number | undefined, at: Moment) => void;
  /** Restarts the timeout of every host after a gap in the watch. */
  readonly restartLeaseTimeouts: (monotonicMs: number) => void;
  /** Keys are `namespace/name`; undefined if the object was deleted. */
  readonly setService: (key: string, model: string | undefined) => void;
  readonly setModel: (key: string, source: string | undefined) => void;
  /** Measured tokens per second of a model by device class, the fastest of its quantizations and runtimes. */
  readonly speedsOf: (record: CatalogRecord) => Readonly<Record<string, number>>;
  /** Sorted by name, without hosts that no agent has joined; `site` finds these too, and a Host before a Node of the same name. */
  readonly sites: () => readonly DensitySite[];
  readonly site: (name: string, kind?: DensityMachine["kind"]) => DensitySite | undefined;
  /** Reservations on machines that are not known, for example because the reader may not list them. */
  readonly heldElsewhere: () => readonly (readonly [machine: string, held: readonly HeldMemory[]])[];
  readonly modelOf: (held: HeldMemory) => {
    readonly name: string;
    readonly record: CatalogRecord | undefined;
  };
  readonly fitOf: (site: DensitySite, record: CatalogRecord) => Fit | undefined;
  readonly summaryOf: (site: DensitySite) => Summary;
  /** True if some site, or this site, has measured this record and so has its own score. */
  readonly hasOwnFits: (record: CatalogRecord) => boolean;
  readonly hasOwnFit: (site: DensitySite, record: CatalogRecord) => boolean;
  /** Bytes that no replica has claimed, also on cordoned machines; undefined if the budget is unknown. */
  readonly leftBytes: (site: DensitySite) => number | undefined;
  readonly lastSeenMs: (site: DensitySite, now: Moment) => number | undefined;
  readonly isStale: (site: DensitySite, now: Moment) => boolean;
  /** The result of `work`, cached until the next change. */
  readonly once: <T>(work: (density: Density) => T) => T;
  /** Calls the listener after each change; returns a function that unsubscribes. */
  readonly onChange: (listener: () => void) => () => void;
}

/** A host renews every 10 s. */
const STALE_MS = 90_000;

interface Known extends DensitySite {
  place: DensityMachine;
  group: MachineClass | undefined;
  readonly held: Map<string, HeldMemory>;
  /** Fits of records that this machine has measured. */
  own: Map<CatalogRecord, Fit | undefined>;
  summary: Summary | undefined;
}

export function createDensity(fits: FitIndex, weights = DEFAULT_SCORE_WEIGHTS): Density {
  return new DensityState(fits, weights);
}

class DensityState implements Density {
  readonly fits: FitIndex;
  readonly weights: ScoreWeights;
  readonly #known = new Map<string, Known>();
  readonly #services = new Map<string, string>();
  readonly #speeds = new Map<CatalogRecord, Readonly<Record<string, number>>>();
  readonly #models = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  /** Results by the function that computed them. */
  readonly #cache = new Map<unknown, unknown>();
  /** Number of sites that have measured a record. */
  readonly #ownFits = new Map<CatalogRecord, number>();
  /** Place of each replica or pod. */
  readonly #placeOf = new Map<string, string>();
  /** Reservations on places whose object has not arrived yet. */
  readonly #heldOnUnknown = new Map<string, Map<string, HeldMemory>>();
  readonly #renewals = new Map<string, Moment>();
  #ratios: readonly SpeedRatio[] = [];
  #sorted: readonly Known[] | undefined;

  constructor(fits: FitIndex, weights: ScoreWeights) {
    this.fits = fits;
    this.weights = weights;
  }

  setPlace(kind: DensityMachine["kind"], name: string, place: DensityMachine | undefined): void {
    const id = `${kind}/${name}`;
    const before = this.#known.get(id);
    const after = place === undefined ? undefined : this.#join(id, this.#calibrated(place), before);
    if (after === undefined) this.#known.delete(id);
    else this.#known.set(id, after);
    const held = before?.held ?? new Map<string, HeldMemory>();
    if (after === undefined && held.size > 0) this.#heldOnUnknown.set(id, held);
    else this.#heldOnUnknown.delete(id);
    if (after === undefined) this.#renewals.delete(id);
    for (const record of before?.own.keys() ?? []) this.#countOwn(record, -1);
    for (const record of after?.own.keys() ?? []) this.#countOwn(record, 1);
    // After joining the new class, which may be the same one.
    if (before?.group !== undefined) this.fits.leave(before.group);
    this.#sorted = undefined;
    this.#changed();
  }

  setBenchmarks(table: BenchmarkTable): void {
    this.#noteSpeeds(table);
    const ratios = speedRatios(table.results.values(), this.fits.match);
    if (isDeepEqual(ratios, this.#ratios)) return;
    this.#ratios = ratios;
    for (const { place } of [...this.#known.values()]) this.setPlace(place.kind, place.name, place);
  }

  #calibrated(place: DensityMachine): DensityMachine {
    if (place.machine.at !== "known") return place;
    return { ...place, machine: { at: "known", machine: calibrate(place.machine.machine, this.#ratios) } };
  }

  #join(id: string, place: DensityMachine, before: Known | undefined): Known {
    const machine = place.machine.at === "known" ? place.machine.machine : undefined;
    const group = machine === undefined ? undefined : this.fits.join(machine);
    const own = machine === undefined ? new Map<CatalogRecord, Fit>() : this.fits.ownFits(machine);
    const isUnchanged = before !== undefined && before.group === group && haveEqualScores(before.own, own);
    return {
      place,
      group,
      own,
      held: before?.held ?? this.#heldOnUnknown.get(id) ?? new Map<string, HeldMemory>(),
      summary: isUnchanged ? before.summary : undefined,
    };
  }

  setHeld(...[key, on, held]: Parameters<Density["setHeld"]>): void {
    const id = on && `${on.kind}/${on.name}`;
    const before = this.#placeOf.get(key);
    if (before !== undefined && before !== id) this.#drop(key, before);
    if (id === undefined || held === undefined) this.#placeOf.delete(key);
    else {
      this.#placeOf.set(key, id);
      this.#heldOn(id).set(key, held);
    }
    this.#changed();
  }

  /** Called only for changes; the first renewal of a host may be old. */
  leaseRenewed(host: string, renewedAtMs: number | undefined, { wallMs, monotonicMs }: Moment): void {
    const id = `Host/${host}`;
    const isFirst = !this.#renewals.has(id);
    const seenMs = isFirst && renewedAtMs !== undefined ? Math.min(wallMs, renewedAtMs) : wallMs;
    this.#renewals.set(id, { wallMs: seenMs, monotonicMs });
  }

  restartLeaseTimeouts(monotonicMs: number): void {
    for (const [id, { wallMs }] of this.#renewals) this.#renewals.set(id, { wallMs, monotonicMs });
  }

  setService(key: string, model: string | undefined): void {
    this.#set(this.#services, key, model);
  }

  setModel(key: string, source: string | undefined): void {
    this.#set(this.#models, key, source);
  }

  #noteSpeeds({ results }: BenchmarkTable): void {
    this.#speeds.clear();
    for (const { model, deviceClass, generation } of results.values()) {
      const record = this.fits.recordOf(model);
      if (record === undefined) continue;
      const { [deviceClass]: before = 0, ...others } = this.#speeds.get(record) ?? {};
      this.#speeds.set(record, { ...others, [deviceClass]: Math.max(before, generation.median) });
    }
    this.#changed();
  }

  speedsOf(record: CatalogRecord): Readonly<Record<string, number>> {
    return this.#speeds.get(record) ?? {};
  }

  #set(map: Map<string, string>, key: string, value: string | undefined): void {
    if (map.get(key) === value) return;
    if (value === undefined) map.delete(key);
    else map.set(key, value);
    this.#changed();
  }

  sites(): readonly Known[] {
    this.#sorted ??= [...this.#known.values()]
      .filter(({ place }) => place.isAwaitingJoin !== true)
      .sort((a, b) => compareText(a.place.name, b.place.name));
    return this.#sorted;
  }

  site(name: string, kind?: DensityMachine["kind"]): Known | undefined {
    if (kind !== undefined) return this.#known.get(`${kind}/${name}`);
    return this.#known.get(`Host/${name}`) ?? this.#known.get(`Node/${name}`);
  }

  heldElsewhere(): ReturnType<Density["heldElsewhere"]> {
    return [...this.#heldOnUnknown].map(
      ([id, held]) => [id.slice(id.indexOf("/") + 1), [...held.values()]] as const,
    );
  }

  modelOf({ namespace, service }: HeldMemory): ReturnType<Density["modelOf"]> {
    const name = this.#services.get(`${namespace}/${service}`) ?? service;
    const source = this.#models.get(`${namespace}/${name}`);
    return { name, record: source === undefined ? undefined : this.fits.recordOf(source) };
  }

  fitOf(site: DensitySite, record: CatalogRecord): Fit | undefined {
    const { group, own } = site as Known;
    if (group === undefined) return undefined;
    return own.has(record) ? own.get(record) : this.fits.fitOf(group, record);
  }

  summaryOf(given: DensitySite): Summary {
    const site = given as Known;
    if (site.group === undefined) return { bestScore: 0, count: 0 };
    if (site.own.size === 0) return this.fits.summaryOf(site.group);
    site.summary ??= summarize(this.fits.records.map((record) => this.fitOf(site, record)));
    return site.summary;
  }

  lastSeenMs({ place }: DensitySite, { wallMs }: Moment): number | undefined {
    const heardAtMs = this.#renewals.get(`${place.kind}/${place.name}`)?.wallMs ?? place.lastHeartbeatMs;
    return heardAtMs === undefined ? undefined : Math.min(wallMs, heardAtMs);
  }

  isStale({ place }: DensitySite, { monotonicMs }: Moment): boolean {
    if (place.staleReason !== undefined) return true;
    const leaseRenewed = this.#renewals.get(`${place.kind}/${place.name}`);
    return leaseRenewed !== undefined && monotonicMs - leaseRenewed.monotonicMs > STALE_MS;
  }

  hasOwnFits(record: CatalogRecord): boolean {
    return this.#ownFits.has(record);
  }

  hasOwnFit(site: DensitySite, record: CatalogRecord): boolean {
    return (site as Known).own.has(record);
  }

  /** The budget of the free whole GPUs, or the budget less all reservations. */
  leftBytes({ place, held }: DensitySite): number | undefined {
    if (place.machine.at !== "known") return undefined;
    const { budgetBytes } = place.machine.machine;
    const all = [...held.values()];
    if (place.wholeGpus === 0) {
      const left = budgetBytes - all.reduce((sum, { bytes }) => sum + bytes, 0);
      return Math.max(0, Math.min(left, place.availableBytes ?? left));
    }
    const taken = all.reduce((sum, { gpus }) => sum + gpus, 0);
    return (budgetBytes * Math.max(0, place.wholeGpus - taken)) / place.wholeGpus;
  }

  once<T>(work: (density: Density) => T): T {
    if (!this.#cache.has(work)) this.#cache.set(work, work(this));
    return this.#cache.get(work) as T;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #countOwn(record: CatalogRecord, by: number): void {
    const count = (this.#ownFits.get(record) ?? 0) + by;
    if (count === 0) this.#ownFits.delete(record);
    else this.#ownFits.set(record, count);
  }

  #drop(key: string, id: string): void {
    const held = this.#heldOn(id);
    held.delete(key);
    if (held.size === 0) this.#heldOnUnknown.delete(id);
  }

  #heldOn(id: string): Map<string, HeldMemory> {
    const found = this.#known.get(id)?.held ?? this.#heldOnUnknown.get(id);
    if (found !== undefined) return found;
    const held = new Map<string, HeldMemory>();
    this.#heldOnUnknown.set(id, held);
    return held;
  }

  #changed(): void {
    this.#cache.clear();
    for (const listener of this.#listeners) listener();
  }
}

/** Compares everything that a summary counts. */
function haveEqualScores(
  one: ReadonlyMap<CatalogRecord, Fit | undefined>,
  other: ReadonlyMap<CatalogRecord, Fit | undefined>,
): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([record, fit]) => {
    const same = other.get(record);
    return other.has(record) && same?.score === fit?.score && same?.level === fit?.level;
  });
}
