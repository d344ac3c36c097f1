/** Limits that all downloads of one host share: bandwidth, and the number of concurrent downloads. */
import type { Clock } from "../../../src/util/ports.ts";
import { waitBeforeRetry } from "./retry.ts";

/** Counts bytes that were read. The caller must wait for a returned promise before it reads more. Rejects with the signal's reason. */
export type RateLimiter = (bytes: number, signal: AbortSignal) => Promise<void> | undefined;

/** Shorter waits are skipped, because each wait has a cost. */
const MIN_WAIT_MS = 5;

/** Limits the total rate of all readers. Unused bandwidth does not accumulate for a burst. */
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
  /** Number of running downloads. */
  readonly running: () => number;
  /**
   * Resolves with a function that leaves the queue once the caller may run. `tenants` is read again whenever a slot is free.
   * `onQueued` receives the number of downloads ahead whenever it changes. Rejects with the signal's reason.
   */
  readonly enter: (
    tenants: Tenants,
    signal: AbortSignal,
    onQueued: (before: number) => void,
  ) => Promise<() => void>;
  /** Must be called when the tenants of a queued download have changed. */
  readonly reconsider: () => void;
}

/** Tenants that requested a download, in the order of their requests. */
export type Tenants = () => Iterable<string>;

interface Queued {
  readonly tenants: Tenants;
  readonly start: (tenant: string) => void;
  readonly onQueued: (before: number) => void;
}

/**
 * A first-in, first-out queue with at most `limit` running downloads. The last `reserved` slots are for tenants that use
 * none, so that a tenant whose downloads never end cannot block the other tenants. A download for several tenants starts as
 * soon as one of them may use a slot, and counts for that tenant.
 */
export function createDownloadQueue(limit: number, reserved = 0): DownloadQueue {
  const queue: Queued[] = [];
  const slots = new Map<string, number>();
  let running = 0;
  const tenantWithSlot = ({ tenants }: Queued): string | undefined => {
    if (running >= limit) return undefined;
    return [...tenants()].find((tenant) => running < limit - reserved || !slots.has(tenant));
  };
  const leave = (tenant: string): void => {
    running -= 1;
    const left = (slots.get(tenant) ?? 0) - 1;
    if (left > 0) slots.set(tenant, left);
    else slots.delete(tenant);
    next();
  };
  const next = (): void => {
    for (;;) {
      const entry = queue.find((queued) => tenantWithSlot(queued) !== undefined);
      const tenant = entry && tenantWithSlot(entry);
      if (entry === undefined || tenant === undefined) break;
      queue.splice(queue.indexOf(entry), 1);
      running += 1;
      slots.set(tenant, (slots.get(tenant) ?? 0) + 1);
      entry.start(tenant);
    }
    for (const [index, { onQueued }] of queue.entries()) onQueued(running + index);
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
            signal.removeEventListener("abort", cancel);
            resolve(() => leave(tenant));
          },
        };
        const cancel = (): void => {
          queue.splice(queue.indexOf(entry), 1);
          reject(signal.reason);
          next();
        };
        signal.addEventListener("abort", cancel, { once: true });
        queue.push(entry);
        next();
      }),
  };
}
