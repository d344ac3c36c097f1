/** How long a peer may take, judged by what the source would take: peers that take long are compared with it, and slow ones put off. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Clock } from "../../src/util/ports.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";

export interface ComparisonLimits {
  /** What is taken from the source to know its rate, unless that takes longer than `sampleMs`. */
  readonly sampleBytes: number;
  readonly sampleMs: number;
}

/** Shared by all downloads of this host: how fast sources are, and which peers are not asked for a time. */
export interface Reputation {
  readonly putOff: (peer: string) => void;
  readonly isPutOff: (peer: string) => boolean;
  /** Bytes per second. */
  readonly note: (source: string, rate: number) => void;
  readonly rateOf: (source: string) => number | undefined;
}

const PUT_OFF_MS = 600_000;
const RATE_KEPT_MS = 600_000;
const MAX_ENTRIES = 1_024;
/** Failures of the source after which peers may still be worth asking. */
const TRANSIENT: readonly string[] = [
  "SourceUnreachable",
  "SourceUnavailable",
  "SourceStalled",
  "SourceTruncated",
];

export function createReputation(clock: Clock): Reputation {
  const putOff = new Map<string, number>();
  const rates = new Map<string, { readonly rate: number; readonly untilMs: number }>();
  return {
    putOff: (peer) => keep(putOff, peer, clock.monotonicMs() + PUT_OFF_MS),
    isPutOff: (peer) => (putOff.get(peer) ?? Number.NEGATIVE_INFINITY) > clock.monotonicMs(),
    note: (source, rate) => keep(rates, source, { rate, untilMs: clock.monotonicMs() + RATE_KEPT_MS }),
    rateOf: (source) => {
      const known = rates.get(source);
      return known !== undefined && known.untilMs > clock.monotonicMs() ? known.rate : undefined;
    },
  };
}

/** The last ones come last. */
function keep<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  const [oldest] = map.keys();
  if (map.size >= MAX_ENTRIES && oldest !== undefined) map.delete(oldest);
  map.set(key, value);
}

interface Phase {
  readonly received: (bytes: number) => void;
  /** Whether it was only to be measured, and may be done without. */
  readonly failed: (error: unknown) => boolean;
  readonly end: () => void;
}

interface World {
  readonly clock: Clock;
  readonly reputation: Reputation;
  readonly drop: (peer: string) => void;
}

/** Belongs to one download. */
export class SourceComparison {
  /** Peers that took long while the source's rate was not known, with the most that they can have given. */
  readonly #compared = new Map<string, number>();
  readonly #source: string;
  readonly #limits: ComparisonLimits;
  readonly #world: World;

  constructor(source: string, limits: ComparisonLimits, world: World) {
    this.#source = source;
    this.#limits = limits;
    this.#world = world;
  }

  /** The source is to give until its rate is known. */
  get isUnderWay(): boolean {
    return this.#compared.size > 0;
  }

  /** Bytes per second of the source; undefined where it is not known. */
  get rate(): number | undefined {
    return this.#world.reputation.rateOf(this.#source);
  }

  /** A peer took longer than it may. */
  compare(peer: string, peerRate: number): void {
    if (this.rate === undefined) this.#compared.set(peer, peerRate);
    else this.#world.drop(peer);
  }

  /** While the source gives; `onKnown` is called after a comparison. */
  measure(onKnown: () => void): Phase {
    const { clock, reputation } = this.#world;
    const { sampleBytes, sampleMs } = this.#limits;
    const startedMs = clock.monotonicMs();
    let bytes = 0;
    const judge = (): void => {
      const ms = clock.monotonicMs() - startedMs;
      if (bytes < sampleBytes && ms < sampleMs) return;
      reputation.note(this.#source, (bytes * 1_000) / Math.max(1, ms));
      this.#conclude();
      onKnown();
    };
    // Not at once: the phase that is measured has not begun.
    const cancel = clock.after(sampleMs + 1, judge);
    return {
      received: (more) => {
        const isNew = bytes < sampleBytes;
        bytes += more;
        if (isNew && bytes >= sampleBytes) judge();
      },
      failed: (error) => {
        const isTransient = error instanceof MetalbridgeError && TRANSIENT.includes(error.code);
        if (!isTransient || !this.isUnderWay) return false;
        reputation.note(this.#source, 0);
        this.#conclude();
        return true;
      },
      end: cancel,
    };
  }

  #conclude(): void {
    const { rate = 0 } = this;
    for (const [peer, peerRate] of this.#compared) if (isPeerTooSlow(peerRate, rate)) this.#world.drop(peer);
    this.#compared.clear();
  }
}

export interface PeerTimeLimits {
  /** For one chunk, while the rate of the source is not known: a peer that takes longer is compared with the source. */
  readonly chunkMs: number;
  /** In all, beyond what chunks may take: a peer may falter, and a chain of hosts has to begin. */
  readonly reserveMs: number;
}

/** A source that gives next to nothing is no measure. */
const MAX_CHUNK_MS = 60_000;
/** A peer counts as slow below this part of the source's rate, over both of its lanes. */
const SLOW_SHARE = 0.5;
const LANES = 2;

/** What one chunk may take. `rate`: bytes per second of the source; undefined: not known. */
export function chunkTimeoutMs(rate: number | undefined, { chunkMs }: PeerTimeLimits): number {
  if (rate === undefined) return chunkMs;
  return Math.min(MAX_CHUNK_MS, (LANES * CHUNK_BYTES * 1_000) / (rate * SLOW_SHARE));
}

/** The highest rate of a peer that needed this time for a chunk of one of its lanes. */
export function maxPeerRate(chunkMs: number): number {
  return (LANES * CHUNK_BYTES * 1_000) / chunkMs;
}

/**
 * What a peer may still take beyond its chunks. What a chunk takes beyond its time comes off the reserve, which faster
 * ones refill up to its limit: n chunks take no longer than n times what one may, and the reserve.
 */
export class PeerTimeBudget {
  readonly #limits: PeerTimeLimits;
  #reserveMs: number;

  constructor(limits: PeerTimeLimits) {
    this.#limits = limits;
    this.#reserveMs = limits.reserveMs;
  }

  /** For the next chunk. */
  deadlineMs(rate: number | undefined): number {
    return this.#reserveMs + chunkTimeoutMs(rate, this.#limits);
  }

  spend(tookMs: number, rate: number | undefined): void {
    const left = this.#reserveMs + chunkTimeoutMs(rate, this.#limits) - tookMs;
    this.#reserveMs = Math.max(0, Math.min(this.#limits.reserveMs, left));
  }

  /** No chunk came in this time, for whatever reason. */
  waste(tookMs: number): void {
    this.#reserveMs = Math.max(0, this.#reserveMs - tookMs);
  }
}

/** Whether a peer that used up its time budget is not worth asking again, now that the source's rate is known. */
export function isPeerTooSlow(peerRate: number, sourceRate: number): boolean {
  return peerRate < sourceRate * SLOW_SHARE;
}
