/** Limits the time of peers by the time that the source would need: peers that take long are compared with it, and slow ones suspended. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { setBounded } from "../../src/util/bounded-map.ts";
import type { Clock } from "../../src/util/ports.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";

export interface ComparisonLimits {
  /** Bytes to read from the source to measure its rate, unless that takes longer than `sampleMs`. */
  readonly sampleBytes: number;
  readonly sampleMs: number;
}

/** Shared by all downloads of this host: the rates of sources, and the peers that are not used for a time. */
export interface Reputation {
  readonly suspend: (peer: string) => void;
  readonly isSuspended: (peer: string) => boolean;
  /** Records a rate in bytes per second. */
  readonly noteRate: (source: string, rate: number) => void;
  readonly rateOf: (source: string) => number | undefined;
}

const SUSPENSION_MS = 600_000;
const RATE_TTL_MS = 600_000;
const MAX_ENTRIES = 1_024;
/** Failures of the source after which peers may still be useful. */
const TRANSIENT: readonly string[] = [
  "SourceUnreachable",
  "SourceUnavailable",
  "SourceStalled",
  "SourceTruncated",
];

export function createReputation(clock: Clock): Reputation {
  const suspended = new Map<string, number>();
  const rates = new Map<string, { readonly rate: number; readonly untilMs: number }>();
  return {
    suspend: (peer) => setBounded(suspended, peer, clock.monotonicMs() + SUSPENSION_MS, MAX_ENTRIES),
    isSuspended: (peer) => (suspended.get(peer) ?? Number.NEGATIVE_INFINITY) > clock.monotonicMs(),
    noteRate: (source, rate) =>
      setBounded(rates, source, { rate, untilMs: clock.monotonicMs() + RATE_TTL_MS }, MAX_ENTRIES),
    rateOf: (source) => {
      const cached = rates.get(source);
      return cached !== undefined && cached.untilMs > clock.monotonicMs() ? cached.rate : undefined;
    },
  };
}

interface Measurement {
  readonly received: (bytes: number) => void;
  /** True if the source was used only for the comparison, and the download may continue without it. */
  readonly failed: (error: unknown) => boolean;
  readonly end: () => void;
}

interface ComparisonPorts {
  readonly clock: Clock;
  readonly reputation: Reputation;
  readonly drop: (peer: string) => void;
}

/** Compares peers with the source for one download. */
export class SourceComparison {
  /** Peers that took long while the source's rate was unknown, with their maximum possible rate. */
  readonly #compared = new Map<string, number>();
  readonly #source: string;
  readonly #limits: ComparisonLimits;
  readonly #ports: ComparisonPorts;

  constructor(source: string, limits: ComparisonLimits, ports: ComparisonPorts) {
    this.#source = source;
    this.#limits = limits;
    this.#ports = ports;
  }

  /** True while the download uses the source to measure its rate. */
  get isUnderWay(): boolean {
    return this.#compared.size > 0;
  }

  /** Bytes per second of the source; undefined if unknown. */
  get rate(): number | undefined {
    return this.#ports.reputation.rateOf(this.#source);
  }

  /** Called when a peer took too long. */
  compare(peer: string, peerRate: number): void {
    if (this.rate === undefined) this.#compared.set(peer, peerRate);
    else this.#ports.drop(peer);
  }

  /** Measures the source while the download uses it; `onKnown` is called after a comparison. */
  measure(onKnown: () => void): Measurement {
    const { clock, reputation } = this.#ports;
    const { sampleBytes, sampleMs } = this.#limits;
    const startedMs = clock.monotonicMs();
    let bytes = 0;
    const conclude = (): void => {
      const ms = clock.monotonicMs() - startedMs;
      if (bytes < sampleBytes && ms < sampleMs) return;
      reputation.noteRate(this.#source, (bytes * 1_000) / Math.max(1, ms));
      this.#dropSlowPeers();
      onKnown();
    };
    const cancel = clock.after(sampleMs + 1, conclude);
    return {
      received: (more) => {
        const isNew = bytes < sampleBytes;
        bytes += more;
        if (isNew && bytes >= sampleBytes) conclude();
      },
      failed: (error) => {
        const isTransient = error instanceof MetalbridgeError && TRANSIENT.includes(error.code);
        if (!isTransient || !this.isUnderWay) return false;
        reputation.noteRate(this.#source, 0);
        this.#dropSlowPeers();
        return true;
      },
      end: cancel,
    };
  }

  #dropSlowPeers(): void {
    const { rate = 0 } = this;
    for (const [peer, peerRate] of this.#compared) if (isPeerTooSlow(peerRate, rate)) this.#ports.drop(peer);
    this.#compared.clear();
  }
}

export interface PeerTimeLimits {
  /** Time for one chunk while the rate of the source is unknown: a peer that takes longer is compared with the source. */
  readonly chunkMs: number;
  /** Time in addition to that of all chunks: a peer may pause, and a chain of hosts takes time to start. */
  readonly reserveMs: number;
}

/** Applies even if the source is slower than this. */
const MAX_CHUNK_MS = 60_000;
/** A peer counts as slow below this share of the source's rate, over both of its lanes. */
const SLOW_SHARE = 0.5;
const LANES = 2;

/** Maximum time for one chunk. `rate`: bytes per second of the source; undefined: unknown. */
export function chunkTimeoutMs(rate: number | undefined, { chunkMs }: PeerTimeLimits): number {
  if (rate === undefined) return chunkMs;
  return Math.min(MAX_CHUNK_MS, (LANES * CHUNK_BYTES * 1_000) / (rate * SLOW_SHARE));
}

/** The maximum rate of a peer that needed this time for a chunk of one of its lanes. */
export function maxPeerRate(chunkMs: number): number {
  return (LANES * CHUNK_BYTES * 1_000) / chunkMs;
}

/**
 * The time that a peer has in addition to that of its chunks. A slow chunk uses up part of the reserve, and faster chunks
 * refill it up to its limit: n chunks take at most n times the time of one chunk, plus the reserve.
 */
export class PeerTimeBudget {
  readonly #limits: PeerTimeLimits;
  #reserveMs: number;

  constructor(limits: PeerTimeLimits) {
    this.#limits = limits;
    this.#reserveMs = limits.reserveMs;
  }

  /** Maximum time for the next chunk. */
  deadlineMs(rate: number | undefined): number {
    return this.#reserveMs + chunkTimeoutMs(rate, this.#limits);
  }

  spend(tookMs: number, rate: number | undefined): void {
    const left = this.#reserveMs + chunkTimeoutMs(rate, this.#limits) - tookMs;
    this.#reserveMs = Math.max(0, Math.min(this.#limits.reserveMs, left));
  }

  /** Called with the time of a request that returned no chunk. */
  waste(tookMs: number): void {
    this.#reserveMs = Math.max(0, this.#reserveMs - tookMs);
  }
}

/** True if a peer that used up its time budget is too slow in comparison with the source. */
export function isPeerTooSlow(peerRate: number, sourceRate: number): boolean {
  return peerRate < sourceRate * SLOW_SHARE;
}
