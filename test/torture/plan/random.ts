/** Numbers that a seed decides: the same on every machine. */

export interface Random {
  /** In 0..1, 1 excluded. */
  readonly next: () => number;
  /** A whole number, both ends included. */
  readonly between: (least: number, most: number) => number;
  readonly pick: <T>(from: readonly T[]) => T;
  /** By weight; weights need not sum to anything. */
  readonly pickWeighted: <T extends { readonly weight: number }>(from: readonly T[]) => T;
}

/** mulberry32: small, and good enough to draw faults. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const pick = <T>(from: readonly T[]): T => {
    const chosen = from[Math.floor(next() * from.length)];
    if (chosen === undefined) throw new Error("nothing to choose from");
    return chosen;
  };
  return {
    next,
    pick,
    between: (least, most) => least + Math.floor(next() * (most - least + 1)),
    pickWeighted: (from) => {
      let left = next() * from.reduce((sum, { weight }) => sum + weight, 0);
      for (const entry of from) {
        left -= entry.weight;
        if (left < 0) return entry;
      }
      return pick(from);
    },
  };
}
