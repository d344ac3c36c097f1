/** A work queue of keys with one run per key at a time. A key that is enqueued during its run is run once more. */
import { type BackoffOptions, retryMs } from "../util/backoff.ts";
import type { Clock, Log } from "../util/ports.ts";

/** Time after which to run the key again without an event. */
export interface Recheck {
  readonly recheckAfterMs?: number | undefined;
}

/** A pass over a key. If it throws, the key is retried after a backoff. */
export type Reconcile<K extends string> = (
  key: K,
  signal: AbortSignal,
) => Promise<Recheck | undefined> | Promise<void>;

export interface IdleQueueOptions<K extends string> {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Maximum number of concurrent runs. The default leaves room for many slow keys. */
  readonly concurrency?: number;
  /**
   * At most `limit` keys of a group run at the same time, and half of all runs are reserved for groups without a running key:
   * however many slow keys a few groups have, the next group can run.
   */
  readonly groups?: { readonly of: (key: K) => string; readonly limit: number };
}

export interface QueueOptions<K extends string> extends IdleQueueOptions<K> {
  readonly reconcile: Reconcile<K>;
}

export interface Queue<K extends string> {
  readonly enqueue: (key: K) => void;
  /** Enqueues the key after `delayMs`, unless it is planned earlier. */
  readonly enqueueAfter: (key: K, delayMs: number) => void;
  /** Number of keys that are queued, planned or running. */
  readonly size: () => number;
  /** Number of keys that are queued or running. */
  readonly depth: () => number;
}

export interface IdleQueue<K extends string> extends Queue<K> {
  /** Starts passes over the enqueued keys and all later ones. */
  readonly start: (reconcile: Reconcile<K>) => void;
}

interface Entry {
  isRunning: boolean;
  /** Enqueued during the run. */
  mustRunAgain: boolean;
  failures: number;
  planned?: { readonly atMs: number; readonly cancel: () => void };
}

const RETRY: BackoffOptions = { firstMs: 1_000, capMs: 60_000 };
const DEFAULT_CONCURRENCY = 32;
/** Minimum retry interval per failing key: 2,000 failing keys are retried at most every 200 s, which is above the usual cap. */
const MIN_SPACING_MS = 100;

/** Starts an empty queue, which stops with `signal`. */
export function createQueue<K extends string>({ reconcile, ...options }: QueueOptions<K>): Queue<K> {
  const queue = createIdleQueue(options);
  queue.start(reconcile);
  return queue;
}

/** A queue that collects keys until it is started, so that event sources can be created before the passes. */
export function createIdleQueue<K extends string>(options: IdleQueueOptions<K>): IdleQueue<K> {
  const queue = new WorkQueue(options);
  options.signal.addEventListener("abort", () => queue.clear(), { once: true });
  return {
    enqueue: (key) => queue.enqueue(key),
    enqueueAfter: (key, delayMs) => queue.enqueueAfter(key, delayMs),
    size: () => queue.size,
    depth: () => queue.depth,
    start: (reconcile) => queue.start(reconcile),
  };
}

class WorkQueue<K extends string> {
  readonly #options: IdleQueueOptions<K>;
  readonly #limit: number;
  readonly #entries = new Map<K, Entry>();
  readonly #ready = new Set<K>();
  readonly #runningOf = new Map<string, number>();
  #running = 0;
  #isPumping = false;
  /** Undefined until the queue is started. */
  #reconcile: Reconcile<K> | undefined;

  constructor(options: IdleQueueOptions<K>) {
    this.#options = options;
    this.#limit = options.concurrency ?? DEFAULT_CONCURRENCY;
  }

  get size(): number {
    return this.#entries.size;
  }

  get depth(): number {
    return this.#ready.size + this.#running;
  }

  start(reconcile: Reconcile<K>): void {
    this.#reconcile = reconcile;
    this.#pumpSoon();
  }

  enqueue(key: K): void {
    if (this.#options.signal.aborted) return;
    const entry = this.#entryOf(key);
    unplan(entry);
    if (entry.isRunning) {
      entry.mustRunAgain = true;
      return;
    }
    this.#ready.add(key);
    this.#pumpSoon();
  }

  enqueueAfter(key: K, delayMs: number): void {
    const { clock, signal } = this.#options;
    if (signal.aborted) return;
    const entry = this.#entryOf(key);
    if (entry.mustRunAgain || this.#ready.has(key)) return;
    const waitMs = Math.max(0, delayMs);
    const atMs = clock.monotonicMs() + waitMs;
    if (entry.planned !== undefined && entry.planned.atMs <= atMs) return;
    unplan(entry);
    entry.planned = { atMs, cancel: clock.after(waitMs, () => this.enqueue(key)) };
  }

  clear(): void {
    for (const entry of this.#entries.values()) unplan(entry);
    this.#entries.clear();
    this.#ready.clear();
  }

  #entryOf(key: K): Entry {
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    const fresh: Entry = { isRunning: false, mustRunAgain: false, failures: 0 };
    this.#entries.set(key, fresh);
    return fresh;
  }

  // Never runs in the caller: a burst of watch events becomes one run per key, and handlers stay fast.
  #pumpSoon(): void {
    const reconcile = this.#reconcile;
    if (this.#isPumping || reconcile === undefined) return;
    this.#isPumping = true;
    setImmediate(() => {
      this.#isPumping = false;
      for (const key of this.#ready) {
        if (this.#running >= this.#limit) return;
        if (this.#isGroupFull(key)) continue;
        this.#ready.delete(key);
        void this.#run(key, reconcile);
      }
    });
  }

  #isGroupFull(key: K): boolean {
    const { groups } = this.#options;
    if (groups === undefined) return false;
    const running = this.#runningOf.get(groups.of(key)) ?? 0;
    const free = this.#limit - this.#running;
    return running > 0 && (running >= groups.limit || free <= this.#limit / 2);
  }

  #count(key: K, change: 1 | -1): void {
    this.#running += change;
    const group = this.#options.groups?.of(key);
    if (group === undefined) return;
    const left = (this.#runningOf.get(group) ?? 0) + change;
    if (left === 0) this.#runningOf.delete(group);
    else this.#runningOf.set(group, left);
  }

  async #run(key: K, reconcile: Reconcile<K>): Promise<void> {
    const { log, signal } = this.#options;
    const entry = this.#entryOf(key);
    entry.isRunning = true;
    this.#count(key, 1);
    let againMs: number | undefined;
    try {
      againMs = (await reconcile(key, signal))?.recheckAfterMs;
      entry.failures = 0;
    } catch (err) {
      entry.failures += 1;
      againMs = this.#retryMs(entry.failures, err);
      entry.mustRunAgain = false; // a pass that writes and fails must not restart itself without a pause
      if (!signal.aborted)
        log.warn({ err, key, failures: entry.failures, retryMs: againMs }, "reconcile failed");
    }
    this.#count(key, -1);
    entry.isRunning = false;
    this.#settle(key, entry, againMs);
  }

  /** A key whose error a user must correct is retried soon, but the total rate of such retries is limited. */
  #retryMs(failures: number, error: unknown): number {
    const delayMs = retryMs(failures, RETRY, numberIn(error, "retryAfterMs"));
    const withinMs = numberIn(error, "retryWithinMs");
    if (withinMs === undefined) return delayMs;
    const failing = [...this.#entries.values()].filter((entry) => entry.failures > 0).length;
    return Math.min(delayMs, Math.max(withinMs, failing * MIN_SPACING_MS));
  }

  #settle(key: K, entry: Entry, againMs: number | undefined): void {
    if (entry.mustRunAgain) {
      entry.mustRunAgain = false;
      this.enqueue(key);
    } else if (againMs !== undefined) this.enqueueAfter(key, againMs);
    if (entry.planned === undefined && !this.#ready.has(key)) this.#entries.delete(key);
    this.#pumpSoon();
  }
}

/** Errors may have limits for the retry: an earliest time from the server, and a latest time if a user may correct the error. */
function numberIn(error: unknown, field: "retryAfterMs" | "retryWithinMs"): number | undefined {
  const value: unknown = error instanceof Error ? Reflect.get(error, field) : undefined;
  return typeof value === "number" ? value : undefined;
}

function unplan(entry: Entry): void {
  entry.planned?.cancel();
  delete entry.planned;
}
