/** What all downloads of one host share: bandwidth, and how many there may be at once. */
import type { Clock } from "../../../src/util/ports.ts";
import { waitBeforeRetry } from "./retry.ts";

/** Counts bytes that were read; a promise means: wait for it before reading on. It rejects with the signal's reason. */
export type RateLimiter = (bytes: number, signal: AbortSignal) => Promise<void> | undefined;

/** Shorter waits cost more than they smooth. */
const MIN_WAIT_MS = 5;

/** So many bytes per second for all who read together; unused bandwidth is not saved up for a burst. */
export function createRateLimiter(bytesPerSecond: number, clock: Clock): RateLimiter {
  let freeAt = Number.NEGATIVE_INFINITY;
  return (bytes, signal) => {
    const now = clock.monotonicMs();
    freeAt = Math.max(freeAt, now) + (bytes * 1_000) / bytesPerSecond;
    const waitMs = freeAt - now;
    return waitMs < MIN_WAIT_MS ? undefined : waitBeforeRetry(waitMs, { clock, signal });
  };
}

export interface DownloadQueue {
  /** Downloads whose turn it is. */
  readonly running: () => number;
  /**
   * Resolves when it is the caller's turn, with what ends it. `tenants`: for whom it is, which may change until then.
   * `onQueued` learns how many go first, and whenever that changes. Rejects with the signal's reason.
   */
  readonly enter: (
    tenants: Tenants,
    signal: AbortSignal,
    onQueued: (before: number) => void,
  ) => Promise<() => void>;
  /** The tenants of a download that waits have changed. */
  readonly reconsider: () => void;
}

/** Those who want a download, the first one first. */
export type Tenants = () => Iterable<string>;

interface Waiting {
  readonly tenants: Tenants;
  readonly start: (tenant: string) => void;
  readonly onQueued: (before: number) => void;
}

/**
 * First come, first served, up to `most` at once. The last `reserved` places are for tenants that have none, so that one
 * tenant whose downloads never end cannot keep the others from starting. A download that several tenants want starts as soon
 * as one of them has a place, and takes that one's.
 */
export function createDownloadQueue(most: number, reserved = 0): DownloadQueue {
  const waiting: Waiting[] = [];
  const places = new Map<string, number>();
  let running = 0;
  const payerOf = ({ tenants }: Waiting): string | undefined => {
    if (running >= most) return undefined;
    return [...tenants()].find((tenant) => running < most - reserved || !places.has(tenant));
  };
  const leave = (tenant: string): void => {
    running -= 1;
    const left = (places.get(tenant) ?? 0) - 1;
    if (left > 0) places.set(tenant, left);
    else places.delete(tenant);
    next();
  };
  const next = (): void => {
    for (;;) {
      const index = waiting.findIndex((entry) => payerOf(entry) !== undefined);
      const [entry] = index < 0 ? [] : waiting.splice(index, 1);
      const tenant = entry && payerOf(entry);
      if (entry === undefined || tenant === undefined) break;
      running += 1;
      places.set(tenant, (places.get(tenant) ?? 0) + 1);
      entry.start(tenant);
    }
    for (const [index, { onQueued }] of waiting.entries()) onQueued(running + index);
  };
  return {
    running: () => running,
    reconsider: next,
    enter: (tenants, signal, onQueued) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const entry = {
          tenants,
          onQueued,
          start: (tenant: string) => {
            signal.removeEventListener("abort", giveUp);
            resolve(() => leave(tenant));
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
