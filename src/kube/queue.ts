/** A work queue of keys: one run per key at a time, everything that arrives meanwhile is one more run. */
import { type BackoffOptions, retryMs } from "../util/backoff.ts";
import type { Clock, Log } from "../util/ports.ts";

/** When to look at the key again although nothing happened. */
export interface Recheck {
  readonly recheckAfterMs?: number | undefined;
}

/** One pass over one key. A throw means: again, after a backoff of the key's own. */
export type Reconcile<K extends string> = (
  key: K,
  signal: AbortSignal,
) => Promise<Recheck | undefined> | Promise<void>;

export interface IdleQueueOptions<K extends string> {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Keys in work at the same time; the default leaves room for many slow ones. */
  readonly concurrency?: number;
  /**
   * At most `limit` keys of one group run at the same time, and half of all places are for groups of which none runs: however
   * many slow keys a few groups have, the next group finds a place.
   */
  readonly groups?: { readonly of: (key: K) => string; readonly limit: number };
}

export interface QueueOptions<K extends string> extends IdleQueueOptions<K> {
  readonly reconcile: Reconcile<K>;
}

export interface Queue<K extends string> {
  readonly enqueue: (key: K) => void;
  /** At the latest after `delayMs`; an earlier time already planned stays. */
  readonly enqueueAfter: (key: K, delayMs: number) => void;
  /** Keys that are waiting, planned or in work. */
  readonly size: () => number;
  /** Keys that are due or in work. */
  readonly depth: () => number;
}

export interface IdleQueue<K extends string> extends Queue<K> {
  /** Runs passes over the keys that were enqueued, and over all that follow. */
  readonly start: (reconcile: Reconcile<K>) => void;
}

interface Entry {
  isRunning: boolean;
  /** Asked for while running. */
  isAskedAgain: boolean;
  failures: number;
  planned?: { readonly atMs: number; readonly cancel: () => void };
}

const RETRY: BackoffOptions = { firstMs: 1_000, capMs: 60_000 };
const DEFAULT_CONCURRENCY = 32;
/** Per failing key: 2,000 of them are not retried more often than every 200 s, which is beyond the usual cap. */
const MIN_SPACING_MS = 100;

/** Starts an empty queue; it ends with `signal`. */
export function createQueue<K extends string>({ reconcile, ...options }: QueueOptions<K>): Queue<K> {
  const queue = createIdleQueue(options);
  queue.start(reconcile);
  return queue;
}

/** Collects keys until it is started: whatever enqueues can be built before the passes are. */
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
  /** Undefined until the start. */
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
      entry.isAskedAgain = true;
      return;
    }
    this.#ready.add(key);
    this.#pumpSoon();
  }

  enqueueAfter(key: K, delayMs: number): void {
    const { clock, signal } = this.#options;
    if (signal.aborted) return;
    const entry = this.#entryOf(key);
    if (entry.isAskedAgain || this.#ready.has(key)) return;
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
    const fresh: Entry = { isRunning: false, isAskedAgain: false, failures: 0 };
    this.#entries.set(key, fresh);
    return fresh;
  }

  // Never inside the caller: a burst of watch events becomes one run per key, and handlers stay quick.
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
      entry.isAskedAgain = false; // a pass that fails and writes must not call itself back without a pause
      if (!signal.aborted)
        log.warn({ err, key, failures: entry.failures, retryMs: againMs }, "reconcile failed");
    }
    this.#count(key, -1);
    entry.isRunning = false;
    this.#settle(key, entry, againMs);
  }

  /** A key whose error asks a user for a correction is retried soon, but all such keys together at a bounded rate. */
  #retryMs(failures: number, error: unknown): number {
    const delayMs = retryMs(failures, RETRY, numberIn(error, "retryAfterMs"));
    const withinMs = numberIn(error, "retryWithinMs");
    if (withinMs === undefined) return delayMs;
    const failing = [...this.#entries.values()].filter((entry) => entry.failures > 0).length;
    return Math.min(delayMs, Math.max(withinMs, failing * MIN_SPACING_MS));
  }

  #settle(key: K, entry: Entry, againMs: number | undefined): void {
    if (entry.isAskedAgain) {
      entry.isAskedAgain = false;
      this.enqueue(key);
    } else if (againMs !== undefined) this.enqueueAfter(key, againMs);
    if (entry.planned === undefined && !this.#ready.has(key)) this.#entries.delete(key);
    this.#pumpSoon();
  }
}

/** Errors may carry when to retry: at the earliest as the server says, at the latest where a user may have corrected it. */
function numberIn(error: unknown, field: "retryAfterMs" | "retryWithinMs"): number | undefined {
  const value: unknown = error instanceof Error ? Reflect.get(error, field) : undefined;
  return typeof value === "number" ? value : undefined;
}

function unplan(entry: Entry): void {
  entry.planned?.cancel();
  delete entry.planned;
}
