/** Writes for one key in order, the newest intent winning: an old announcement must never land after a withdrawal. */

export interface Turn {
  /** True once a newer intent for the key has come. */
  readonly isSuperseded: () => boolean;
}

export interface Intents {
  /** Runs when the earlier work for the key is over. */
  readonly take: <T>(key: string, work: (turn: Turn) => Promise<T>) => Promise<T>;
}

export function createIntents(): Intents {
  const tails = new Map<string, Promise<unknown>>();
  const newest = new Map<string, symbol>();
  return {
    take: (key, work) => {
      const mark = Symbol(key);
      newest.set(key, mark);
      const before = tails.get(key) ?? Promise.resolve();
      const run = before.then(() => work({ isSuperseded: () => newest.get(key) !== mark }));
      const tail: Promise<unknown> = run
        .catch(() => undefined)
        .then(() => {
          if (tails.get(key) !== tail) return;
          tails.delete(key);
          newest.delete(key);
        });
      tails.set(key, tail);
      return run;
    },
  };
}
