/** Counters of concurrent requests, requests and tokens per minute in this process. Pure: time is an argument. */
import type { KeyLimits } from "../../src/gateway/key.ts";
import { type Admission, refusalFor } from "./limits.ts";

export interface LimitedKey {
  readonly id: string;
  readonly limits: KeyLimits;
}

export interface OwnCounters {
  /** The refusal if one more request would exceed the `share`, which is one gateway's part of the limits. The message has the whole limit. */
  readonly check: (key: LimitedKey, share: KeyLimits, nowMs: number) => Admission | undefined;
  /** Counts an admitted request. */
  readonly begin: (key: LimitedKey, share: KeyLimits, requestId: string, nowMs: number) => void;
  /** The request is answered, and no longer concurrent. Returns the key; undefined for an unknown request. */
  readonly leave: (requestId: string) => LimitedKey | undefined;
  /** Charges the tokens. Returns the key; undefined for an unknown request. */
  readonly end: (requestId: string, tokens: number, nowMs: number) => LimitedKey | undefined;
  /** Requests in flight by id of the key. */
  readonly inFlight: () => ReadonlyMap<string, readonly string[]>;
  /** Number of keys with counters. */
  readonly size: () => number;
}

interface Counters {
  readonly inFlight: Set<string>;
  /** Requests whose tokens are not charged yet. */
  uncharged: number;
  requests: Bucket | undefined;
  tokens: Bucket | undefined;
  share: KeyLimits;
}

/** Counters of unused keys are removed only above this number of keys. */
const SWEEP_FROM = 1_024;
/** A guess: when a request of the key will finish is unknown. */
const RETRY_CONCURRENT_MS = 1_000;

export function createOwnCounters(): OwnCounters {
  const byKey = new Map<string, Counters>();
  const byRequest = new Map<string, LimitedKey>();
  let sweepAt = SWEEP_FROM;
  const countersOf = (id: string, share: KeyLimits, nowMs: number): Counters => {
    const found = byKey.get(id) ?? {
      inFlight: new Set(),
      uncharged: 0,
      requests: undefined,
      tokens: undefined,
      share,
    };
    found.share = share;
    found.requests = refilled(found.requests, share.requestsPerMinute, nowMs);
    found.tokens = refilled(found.tokens, share.tokensPerMinute, nowMs);
    return found;
  };
  const sweep = (nowMs: number): void => {
    for (const [id, counters] of byKey) if (hasRecovered(counters, nowMs)) byKey.delete(id);
    sweepAt = Math.max(SWEEP_FROM, byKey.size * 2);
  };
  return {
    check: (key, share, nowMs) => refusalOf(key, countersOf(key.id, share, nowMs)),
    begin: (key, share, requestId, nowMs) => {
      if (byKey.size >= sweepAt) sweep(nowMs);
      const counters = countersOf(key.id, share, nowMs);
      byKey.set(key.id, counters);
      byRequest.set(requestId, key);
      counters.inFlight.add(requestId);
      counters.uncharged += 1;
      if (counters.requests !== undefined) counters.requests = take(counters.requests, 1);
    },
    leave: (requestId) => {
      const key = byRequest.get(requestId);
      if (key !== undefined) byKey.get(key.id)?.inFlight.delete(requestId);
      return key;
    },
    end: (requestId, tokens, nowMs) => {
      const key = byRequest.get(requestId);
      const counters = key && byKey.get(key.id);
      if (counters === undefined) return undefined;
      byRequest.delete(requestId);
      counters.inFlight.delete(requestId);
      counters.uncharged -= 1;
      counters.tokens = refilled(counters.tokens, counters.share.tokensPerMinute, nowMs);
      if (counters.tokens !== undefined) counters.tokens = take(counters.tokens, tokens);
      return key;
    },
    inFlight: () =>
      new Map([...byKey].flatMap(([id, { inFlight }]) => (inFlight.size > 0 ? [[id, [...inFlight]]] : []))),
    size: () => byKey.size,
  };
}

/** Undefined if the key has no such limit (any more). */
function refilled(bucket: Bucket | undefined, perMinute: number | undefined, nowMs: number) {
  if (perMinute === undefined) return undefined;
  return bucket === undefined ? fullBucket(perMinute, nowMs) : refill(bucket, perMinute, nowMs);
}

function refusalOf({ limits }: LimitedKey, counters: Counters): Admission | undefined {
  const { share, inFlight, requests, tokens } = counters;
  if (share.concurrentRequests !== undefined && inFlight.size >= share.concurrentRequests)
    return refusalFor(limits, "concurrentRequests", RETRY_CONCURRENT_MS);
  const requestMs = waitOf(requests, share.requestsPerMinute);
  if (requestMs > 0) return refusalFor(limits, "requestsPerMinute", requestMs);
  const tokenMs = waitOf(tokens, share.tokensPerMinute);
  return tokenMs > 0 ? refusalFor(limits, "tokensPerMinute", tokenMs) : undefined;
}

function waitOf(bucket: Bucket | undefined, perMinute: number | undefined): number {
  return bucket === undefined || perMinute === undefined ? 0 : waitMs(bucket, perMinute);
}

function hasRecovered({ uncharged, requests, tokens, share }: Counters, nowMs: number): boolean {
  const isFull = (bucket: Bucket | undefined, perMinute: number | undefined) =>
    perMinute === undefined || (refilled(bucket, perMinute, nowMs)?.level ?? perMinute) >= perMinute;
  return (
    uncharged === 0 && isFull(requests, share.requestsPerMinute) && isFull(tokens, share.tokensPerMinute)
  );
}

const MINUTE_MS = 60_000;
/** Tolerates rounding errors after the exact wait. */
const ROUNDING = 1e-6;

/** A token bucket that refills steadily, up to one minute's worth. The level may be negative: the size of a request is known only at its end. */
interface Bucket {
  readonly level: number;
  readonly atMs: number;
}

function fullBucket(perMinute: number, nowMs: number): Bucket {
  return { level: perMinute, atMs: nowMs };
}

/** If the clock was set back, nothing is refilled. */
function refill({ level, atMs }: Bucket, perMinute: number, nowMs: number): Bucket {
  const added = (Math.max(0, nowMs - atMs) * perMinute) / MINUTE_MS;
  return { level: Math.min(perMinute, level + added), atMs: nowMs };
}

function take({ level, atMs }: Bucket, amount: number): Bucket {
  return { level: level - amount, atMs };
}

/** Time until one unit is in the bucket, or until it is full if it holds less than one; 0 if a request is admitted now. */
function waitMs({ level }: Bucket, perMinute: number): number {
  const missing = Math.min(1, perMinute) - level;
  return missing <= ROUNDING ? 0 : (missing * MINUTE_MS) / perMinute;
}
