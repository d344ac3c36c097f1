/** What the cluster's machines are, hold and score: fed by watches, read by routes and metrics. Time is an argument. Pure. */

import type { Moment } from "../../src/util/moment.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { type Fit, type FitIndex, type MachineClass, type Summary, summarize } from "./fits.ts";
import type { DensityMachine } from "./place.ts";

/** A replica on a host, or a pod on a node, and what is reserved for it. */
export interface HeldMemory {
  readonly namespace: string;
  readonly service: string;
  readonly phase: string;
  readonly bytes: number;
  readonly gpus: number;
}

/** A place with what is known beside its own object. */
export interface DensitySite {
  readonly place: DensityMachine;
  /** Undefined where its machine is unusable. */
  readonly group: MachineClass | undefined;
  /** By replica or pod. */
  readonly held: ReadonlyMap<string, HeldMemory>;
}

export interface Density {
  readonly fits: FitIndex;
  /** Undefined: it is gone. */
  readonly setPlace: (kind: DensityMachine["kind"], name: string, place: DensityMachine | undefined) => void;
  readonly setHeld: (
    key: string,
    on: { readonly kind: DensityMachine["kind"]; readonly name: string } | undefined,
    held?: HeldMemory,
  ) => void;
  /** The host has renewed its Lease; `renewedAtMs` is what its own clock says. */
  readonly heard: (host: string, renewedAtMs: number | undefined, at: Moment) => void;
  /** After a gap in the watch: every host gets the whole time again. */
  readonly hearAfresh: (monotonicMs: number) => void;
  /** Both by `namespace/name`; undefined: it is gone. */
  readonly setService: (key: string, model: string | undefined) => void;
  readonly setModel: (key: string, source: string | undefined) => void;
  /** By name; a Host before a Node of the same name. A host that no agent has joined is found by its name only. */
  readonly sites: () => readonly DensitySite[];
  readonly site: (name: string) => DensitySite | undefined;
  readonly modelOf: (held: HeldMemory) => {
    readonly name: string;
    readonly record: CatalogRecord | undefined;
  };
  readonly fitOf: (site: DensitySite, record: CatalogRecord) => Fit | undefined;
  readonly summaryOf: (site: DensitySite) => Summary;
  /** Whether some site, and whether this one, has measured this record and is scored apart from its class. */
  readonly hasOwnFits: (record: CatalogRecord) => boolean;
  readonly hasOwnFit: (site: DensitySite, record: CatalogRecord) => boolean;
  /** Bytes that new engines may claim; undefined where the budget is not known. */
  readonly leftBytes: (site: DensitySite) => number | undefined;
  readonly lastSeenMs: (site: DensitySite, now: Moment) => number | undefined;
  readonly isStale: (site: DensitySite, now: Moment) => boolean;
  /** What `work` returns, remembered until the next change. */
  readonly once: <T>(work: (density: Density) => T) => T;
  /** Called after each change; returns what ends that. */
  readonly onChange: (listener: () => void) => () => void;
}

/** A host renews every 10 s. */
const STALE_MS = 90_000;

interface Known extends DensitySite {
  place: DensityMachine;
  group: MachineClass | undefined;
  readonly held: Map<string, HeldMemory>;
  /** Only records of which this machine has measured something. */
  own: Map<CatalogRecord, Fit | undefined>;
  summary: Summary | undefined;
}

export function createDensity(fits: FitIndex): Density {
  const state = new State(fits);
  const density: Density = {
    fits,
    setPlace: (kind, name, place) => state.setPlace(`${kind}/${name}`, place),
    setHeld: (key, on, held) =>
      state.setHeld(key, on === undefined ? undefined : `${on.kind}/${on.name}`, held),
    heard: (host, renewedAtMs, at) => state.heard(host, renewedAtMs, at),
    hearAfresh: (monotonicMs) => state.hearAfresh(monotonicMs),
    setService: (key, model) => state.note(state.services, key, model),
    setModel: (key, source) => state.note(state.models, key, source),
    sites: () => state.sorted(),
    site: (name) => state.known.get(`Host/${name}`) ?? state.known.get(`Node/${name}`),
    modelOf: (held) => state.modelOf(held),
    fitOf: (site, record) => state.fitOf(site as Known, record),
    summaryOf: (site) => state.summaryOf(site as Known),
    hasOwnFits: (record) => state.ownFits.has(record),
    hasOwnFit: (site, record) => (site as Known).own.has(record),
    leftBytes,
    lastSeenMs: (site, now) => state.lastSeenMs(site, now),
    isStale: (site, now) => state.isStale(site, now),
    once: <T>(work: (density: Density) => T): T => {
      if (!state.kept.has(work)) state.kept.set(work, work(density));
      return state.kept.get(work) as T;
    },
    onChange: (listener) => {
      state.listeners.add(listener);
      return () => state.listeners.delete(listener);
    },
  };
  return density;
}

class State {
  readonly known = new Map<string, Known>();
  readonly services = new Map<string, string>();
  readonly models = new Map<string, string>();
  readonly listeners = new Set<() => void>();
  /** By what worked it out. */
  readonly kept = new Map<unknown, unknown>();
  /** By record: how many sites have measured it. */
  readonly ownFits = new Map<CatalogRecord, number>();
  readonly #fits: FitIndex;
  /** By replica or pod: the place that it is on. */
  readonly #placeOf = new Map<string, string>();
  /** What is on places that are not known yet. */
  readonly #early = new Map<string, Map<string, HeldMemory>>();
  readonly #heard = new Map<string, Moment>();
  #sorted: readonly Known[] | undefined;

  constructor(fits: FitIndex) {
    this.#fits = fits;
  }

  setPlace(id: string, place: DensityMachine | undefined): void {
    const before = this.known.get(id);
    const after = place === undefined ? undefined : this.#join(id, place, before);
    if (after === undefined) this.known.delete(id);
    else this.known.set(id, after);
    const held = before?.held ?? new Map<string, HeldMemory>();
    if (after === undefined && held.size > 0) this.#early.set(id, held);
    else this.#early.delete(id);
    if (after === undefined) this.#heard.delete(id);
    for (const record of before?.own.keys() ?? []) this.#countOwn(record, -1);
    for (const record of after?.own.keys() ?? []) this.#countOwn(record, 1);
    // After it has joined its class of now, which may be the same one.
    if (before?.group !== undefined) this.#fits.leave(before.group);
    this.#sorted = undefined;
    this.#changed();
  }

  #join(id: string, place: DensityMachine, before: Known | undefined): Known {
    const machine = place.machine.at === "known" ? place.machine.machine : undefined;
    const group = machine === undefined ? undefined : this.#fits.join(machine);
    const own = machine === undefined ? new Map<CatalogRecord, Fit>() : this.#fits.ownFits(machine);
    const isAsBefore = before !== undefined && before.group === group && scoreAlike(before.own, own);
    return {
      place,
      group,
      own,
      held: before?.held ?? this.#early.get(id) ?? new Map<string, HeldMemory>(),
      summary: isAsBefore ? before.summary : undefined,
    };
  }

  setHeld(key: string, id: string | undefined, held: HeldMemory | undefined): void {
    const before = this.#placeOf.get(key);
    if (before !== undefined && before !== id) this.#drop(key, before);
    if (id === undefined || held === undefined) this.#placeOf.delete(key);
    else {
      this.#placeOf.set(key, id);
      this.#heldOn(id).set(key, held);
    }
    this.#changed();
  }

  /** Only what changes is heard: the same renewal may be listed again. */
  heard(host: string, renewedAtMs: number | undefined, { wallMs, monotonicMs }: Moment): void {
    const id = `Host/${host}`;
    const isFirst = !this.#heard.has(id);
    const seenMs = isFirst && renewedAtMs !== undefined ? Math.min(wallMs, renewedAtMs) : wallMs;
    this.#heard.set(id, { wallMs: seenMs, monotonicMs });
  }

  hearAfresh(monotonicMs: number): void {
    for (const [id, { wallMs }] of this.#heard) this.#heard.set(id, { wallMs, monotonicMs });
  }

  note(map: Map<string, string>, key: string, value: string | undefined): void {
    if (map.get(key) === value) return;
    if (value === undefined) map.delete(key);
    else map.set(key, value);
    this.#changed();
  }

  sorted(): readonly Known[] {
    this.#sorted ??= [...this.known.values()]
      .filter(({ place }) => place.isAwaited !== true)
      .sort((a, b) => compareNames(a.place.name, b.place.name));
    return this.#sorted;
  }

  modelOf({ namespace, service }: HeldMemory): ReturnType<Density["modelOf"]> {
    const name = this.services.get(`${namespace}/${service}`) ?? service;
    const source = this.models.get(`${namespace}/${name}`);
    return { name, record: source === undefined ? undefined : this.#fits.recordOf(source) };
  }

  fitOf(site: Known, record: CatalogRecord): Fit | undefined {
    if (site.group === undefined) return undefined;
    return site.own.has(record) ? site.own.get(record) : this.#fits.fitOf(site.group, record);
  }

  summaryOf(site: Known): Summary {
    if (site.group === undefined) return { bestScore: 0, count: 0 };
    if (site.own.size === 0) return this.#fits.summaryOf(site.group);
    site.summary ??= summarize(this.#fits.records.map((record) => this.fitOf(site, record)));
    return site.summary;
  }

  lastSeenMs({ place }: DensitySite, { wallMs }: Moment): number | undefined {
    const heardAtMs = this.#heard.get(`${place.kind}/${place.name}`)?.wallMs ?? place.heardAtMs;
    return heardAtMs === undefined ? undefined : Math.min(wallMs, heardAtMs);
  }

  isStale({ place }: DensitySite, { monotonicMs }: Moment): boolean {
    if (place.silence !== undefined) return true;
    const heard = this.#heard.get(`${place.kind}/${place.name}`);
    return heard !== undefined && monotonicMs - heard.monotonicMs > STALE_MS;
  }

  #countOwn(record: CatalogRecord, by: number): void {
    const count = (this.ownFits.get(record) ?? 0) + by;
    if (count === 0) this.ownFits.delete(record);
    else this.ownFits.set(record, count);
  }

  #drop(key: string, id: string): void {
    const held = this.#heldOn(id);
    held.delete(key);
    if (held.size === 0) this.#early.delete(id);
  }

  #heldOn(id: string): Map<string, HeldMemory> {
    const found = this.known.get(id)?.held ?? this.#early.get(id);
    if (found !== undefined) return found;
    const early = new Map<string, HeldMemory>();
    this.#early.set(id, early);
    return early;
  }

  #changed(): void {
    this.kept.clear();
    for (const listener of this.listeners) listener();
  }
}

/** All that a summary counts. */
function scoreAlike(
  one: ReadonlyMap<CatalogRecord, Fit | undefined>,
  other: ReadonlyMap<CatalogRecord, Fit | undefined>,
): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([record, fit]) => {
    const same = other.get(record);
    return other.has(record) && same?.score === fit?.score && same?.level === fit?.level;
  });
}

/** Whole GPUs that no pod has, or the budget less what is held. */
function leftBytes({ place, held }: DensitySite): number | undefined {
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

/** As bytes: the same on every machine. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
