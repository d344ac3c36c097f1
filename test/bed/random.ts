/** Random numbers that a seed decides: the same on every machine. */

export interface Random {
  /** From 0 to 1, without 1. */
  readonly next: () => number;
  readonly between: (low: number, high: number) => number;
  /** A whole number, both ends included. */
  readonly integer: (low: number, high: number) => number;
  readonly chance: (probability: number) => boolean;
  /** With the given mean: times between spontaneous events. */
  readonly exponential: (mean: number) => number;
  readonly pick: <T>(entries: readonly T[]) => T;
  /** One of the entries, each with its weight. */
  readonly pickWeighted: <T>(entries: readonly (readonly [T, number])[]) => T;
}

/** Mulberry32: small, fast, and good enough for a queue and to draw faults. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    integer,
    between: (low, high) => low + (high - low) * next(),
    chance: (probability) => next() < probability,
    exponential: (mean) => -mean * Math.log(1 - next()),
    pick: (entries) => some(entries[integer(0, entries.length - 1)]),
    pickWeighted: (entries) => {
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
      const chosen = entries.find(([, weight]) => {
        left -= weight;
        return left < 0;
      });
      return some(chosen ?? entries.at(-1))[0];
    },
  };
}

function some<T>(entry: T | undefined): T {
  if (entry === undefined) throw new Error("nothing to pick from");
  return entry;
}
