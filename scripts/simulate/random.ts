/** Random numbers that are the same for the same seed. */

export interface Random {
  /** From 0 to 1, without 1. */
  readonly next: () => number;
  readonly between: (low: number, high: number) => number;
  readonly chance: (probability: number) => boolean;
  /** With the given mean: times between spontaneous events. */
  readonly exponential: (mean: number) => number;
  /** One of the entries, each with its weight. */
  readonly pick: <T>(entries: readonly (readonly [T, number])[]) => T;
}

/** Mulberry32: small, fast, and good enough for a queue. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    between: (low, high) => low + (high - low) * next(),
    chance: (probability) => next() < probability,
    exponential: (mean) => -mean * Math.log(1 - next()),
    pick: (entries) => {
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
      for (const [entry, weight] of entries) {
        left -= weight;
        if (left < 0) return entry;
      }
      const last = entries.at(-1);
      if (last === undefined) throw new Error("nothing to pick from");
      return last[0];
    },
  };
}
