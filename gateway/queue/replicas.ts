/** Requests in flight at each replica of one model, and the choice of the next replica. Time is an argument. */
import { createHash } from "node:crypto";
import type { ModelEndpoint } from "../models/served-model.ts";

interface Load {
  inFlight: number;
  /** Moving average of tokens per second of one request; undefined until it is measured. */
  speed: number | undefined;
  /** Monotonic time until which other replicas are preferred, after a failed connection. */
  avoidUntil: number;
  /** Monotonic time at which the replica became ready. */
  readonly since: number;
}

/** Time after a failed connection; by its end, the slice or Envoy's outlier detection has removed a dead replica. */
const AVOID_MS = 5_000;
/** A new replica gets its full share after this time, so that it can fill its caches. */
const RAMP_MS = 10_000;
const RAMP_START = 0.25;
const SPEED_WEIGHT = 0.2;
const SPEED_RANGE = 10;
/** A preferred replica takes up to this factor of the average load. */
const AFFINITY_BOUND = 1.25;
/** Replicas that Envoy may try, in order. */
const TRIES = 2;

export class Replicas {
  readonly #loads = new Map<string, Load>();
  #order: readonly string[] = [];
  #slots = 1;

  /** The ready replicas, and the requests that each may process for this gateway. */
  set(endpoints: readonly ModelEndpoint[], slots: number, now: number): void {
    // When the gateway starts, its first replicas may have run for long.
    const since = this.#order.length === 0 ? Number.NEGATIVE_INFINITY : now;
    this.#order = endpoints.map(({ address }) => address);
    this.#slots = slots;
    for (const address of this.#order)
      if (!this.#loads.has(address))
        this.#loads.set(address, { inFlight: 0, speed: undefined, avoidUntil: 0, since });
    for (const [address, { inFlight }] of this.#loads)
      if (inFlight === 0 && !this.#order.includes(address)) this.#loads.delete(address);
  }

  get inFlight(): number {
    let sum = 0;
    for (const load of this.#loads.values()) sum += load.inFlight;
    return sum;
  }

  /** Slots of all ready replicas. */
  get capacity(): number {
    return this.#order.length * this.#slots;
  }

  hasFree(): boolean {
    return this.#order.some((address) => this.inFlightAt(address) < this.#slots);
  }

  inFlightAt(address: string): number {
    return this.#loads.get(address)?.inFlight ?? 0;
  }

  /**
   * The replica for the next request, and those to try after it; undefined if all are busy. Requests with the same `affinity` go
   * to the same replica unless its load exceeds its share: consistent hashing with bounded loads.
   */
  take(now: number, affinity?: string): readonly string[] | undefined {
    const free = this.#candidates(now);
    if (free.length === 0) return undefined;
    const preferred = affinity === undefined ? undefined : this.#preferred(free, affinity);
    const byLoad = free.toSorted((a, b) => this.#pressure(a, now) - this.#pressure(b, now));
    const order =
      preferred === undefined ? byLoad : [preferred, ...byLoad.filter((one) => one !== preferred)];
    const [first] = order;
    const load = first === undefined ? undefined : this.#loads.get(first);
    if (load !== undefined) load.inFlight += 1;
    return order.slice(0, TRIES);
  }

  /** Must be called at the end of a request that `take` has assigned. */
  release(address: string): void {
    const load = this.#loads.get(address);
    if (load === undefined) return;
    load.inFlight = Math.max(0, load.inFlight - 1);
    if (load.inFlight === 0 && !this.#order.includes(address)) this.#loads.delete(address);
  }

  /** Must be called when a request has failed at this replica before its response. */
  avoid(address: string, now: number): void {
    const load = this.#loads.get(address);
    if (load !== undefined) load.avoidUntil = now + AVOID_MS;
  }

  /** `tokensPerSecond`: generation speed of one request. */
  measured(address: string, tokensPerSecond: number): void {
    const load = this.#loads.get(address);
    if (load === undefined) return;
    load.speed =
      load.speed === undefined ? tokensPerSecond : load.speed + SPEED_WEIGHT * (tokensPerSecond - load.speed);
  }

  /** Replicas with a free slot; those whose last connection failed only if there is no other. */
  #candidates(now: number): string[] {
    const free = this.#order.filter((address) => this.inFlightAt(address) < this.#slots);
    const sound = free.filter((address) => (this.#loads.get(address)?.avoidUntil ?? 0) <= now);
    return sound.length > 0 ? sound : free;
  }

  /** Load after the next request, relative to the capability of the replica. */
  #pressure(address: string, now: number): number {
    return (this.inFlightAt(address) + 1) / this.#weight(address, now);
  }

  #weight(address: string, now: number): number {
    const load = this.#loads.get(address);
    if (load === undefined) return 1;
    const ramp = Math.min(1, RAMP_START + ((1 - RAMP_START) * (now - load.since)) / RAMP_MS);
    const mean = this.#meanSpeed();
    const speed = mean === undefined || load.speed === undefined ? 1 : load.speed / mean;
    return ramp * Math.min(SPEED_RANGE, Math.max(1 / SPEED_RANGE, speed));
  }

  #meanSpeed(): number | undefined {
    const known = this.#order.flatMap((address) => this.#loads.get(address)?.speed ?? []);
    return known.length === 0 ? undefined : known.reduce((sum, speed) => sum + speed, 0) / known.length;
  }

  /** Rendezvous hashing over all replicas, so that a change of the replicas moves few prefixes. */
  #preferred(free: readonly string[], affinity: string): string | undefined {
    const bound = Math.ceil((AFFINITY_BOUND * (this.inFlight + 1)) / Math.max(1, this.#order.length));
    return this.#order
      .map((address) => ({ address, rank: rank(affinity, address) }))
      .toSorted((a, b) => b.rank - a.rank)
      .find(({ address }) => free.includes(address) && this.inFlightAt(address) < bound)?.address;
  }
}

function rank(affinity: string, address: string): number {
  return createHash("sha1").update(affinity).update("\0").update(address).digest().readUIntBE(0, 6);
}
