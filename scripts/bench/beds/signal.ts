/** Waiting for a condition that only events can make true. */

export interface Signal {
  /** `key` is that of the object that has changed. */
  readonly fire: (key?: string) => void;
  /** Called at each event, until the result is called. */
  readonly listen: (listener: (key?: string) => void) => () => void;
  /** Resolves with the first value that `look` returns, asked now and after events that came together; rejects after `timeoutMs`. */
  readonly until: <T>(what: string, look: () => T | undefined, timeoutMs?: number) => Promise<T>;
}

const TIMEOUT_MS = 120_000;

export function createSignal(): Signal {
  const listeners = new Set<(key?: string) => void>();
  return {
    fire: (key) => {
      for (const listener of [...listeners]) listener(key);
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
        let isPlanned = false;
        const ask = () => {
          isPlanned = false;
          const found = look();
          if (found === undefined) return;
          clearTimeout(timer);
          listeners.delete(listener);
          resolve(found);
        };
        // A question may go through thousands of objects, and events come in bursts.
        const listener = () => {
          if (!isPlanned) setImmediate(ask);
          isPlanned = true;
        };
        listeners.add(listener);
        ask();
      }),
  };
}
