/** What all downloads of one host share: bandwidth, and how many there may be at once. */
import type { Clock } from "../../../src/ports.ts";
import { pause } from "./retrying.ts";

/** Counts bytes that were read; a promise means: wait for it before reading on. It rejects with the signal's reason. */
export type Pace = (bytes: number, signal: AbortSignal) => Promise<void> | undefined;

/** Shorter waits cost more than they smooth. */
const SHORTEST_WAIT_MS = 5;

/** So many bytes per second for all who read together; unused bandwidth is not saved up for a burst. */
export function createPace(bytesPerSecond: number, clock: Clock): Pace {
  let freeAt = Number.NEGATIVE_INFINITY;
  return (bytes, signal) => {
    const now = clock.monotonicMs();
    freeAt = Math.max(freeAt, now) + (bytes * 1_000) / bytesPerSecond;
    const waitMs = freeAt - now;
    return waitMs < SHORTEST_WAIT_MS ? undefined : pause(waitMs, { clock, signal });
  };
}

export interface Queue {
  /** Downloads whose turn it is. */
  readonly running: () => number;
  /**
   * Resolves when it is the caller's turn, with what ends it. `onQueued` learns how many go first, and whenever that
   * changes. Rejects with the signal's reason.
   */
  readonly enter: (signal: AbortSignal, onQueued: (before: number) => void) => Promise<() => void>;
}

/** First come, first served. */
export function createQueue(most: number): Queue {
  const waiting: { readonly start: () => void; readonly onQueued: (before: number) => void }[] = [];
  let running = 0;
  const next = (): void => {
    while (running < most) {
      const first = waiting.shift();
      if (first === undefined) return;
      running += 1;
      first.start();
    }
    for (const [index, { onQueued }] of waiting.entries()) onQueued(running + index);
  };
  const leave = (): void => {
    running -= 1;
    next();
  };
  return {
    running: () => running,
    enter: (signal, onQueued) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const entry = {
          onQueued,
          start: () => {
            signal.removeEventListener("abort", giveUp);
            resolve(leave);
          },
        };
        const giveUp = (): void => {
          waiting.splice(waiting.indexOf(entry), 1);
          reject(signal.reason);
          next();
        };
        signal.addEventListener("abort", giveUp, { once: true });
        waiting.push(entry);
        next();
      }),
  };
}
