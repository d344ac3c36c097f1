/** How long a peer may take, judged by what the source would take. Pure. */
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";

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

/** Whether a peer that could not keep within its patience is worth asking again, now that the source's rate is known. */
export function isPeerTooSlow(peerRate: number, sourceRate: number): boolean {
  return peerRate < sourceRate * SLOW_SHARE;
}
