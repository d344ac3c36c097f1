/** Compares peers that take long with the source: its rate is measured where it is not known, and slow peers are put off. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Clock } from "../../src/util/ports.ts";
import { isPeerTooSlow } from "./time-budget.ts";

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
