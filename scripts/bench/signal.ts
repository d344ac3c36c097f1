/** Waiting for a condition that only events can make true. */

export interface Signal {
  readonly fire: () => void;
  /** Called at each event, until the result is called. */
  readonly listen: (listener: () => void) => () => void;
  /** Resolves with the first value that `look` returns, asked now and after each event; rejects after `timeoutMs`. */
  readonly until: <T>(what: string, look: () => T | undefined, timeoutMs?: number) => Promise<T>;
}

const TIMEOUT_MS = 120_000;

export function createSignal(): Signal {
  const listeners = new Set<() => void>();
  return {
    fire: () => {
      for (const listener of [...listeners]) listener();
    },
    listen: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    until: (what, look, timeoutMs = TIMEOUT_MS) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          listeners.delete(listener);
          reject(new Error(`waited ${timeoutMs} ms for ${what}`));
        }, timeoutMs);
        const listener = () => {
          const found = look();
          if (found === undefined) return;
          clearTimeout(timer);
          listeners.delete(listener);
          resolve(found);
        };
        listeners.add(listener);
        listener();
      }),
  };
}
