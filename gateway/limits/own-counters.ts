/** Counters of concurrent requests, requests and tokens per minute in this process. Pure: time is an argument. */
import type { KeyLimits } from "../../src/gateway/key.ts";
import { type Bucket, fullBucket, refill, take, waitMs } from "./bucket.ts";
import type { Admission } from "./limits.ts";
import { refuse } from "./refusal.ts";

export interface LimitedKey {
  readonly id: string;
  readonly limits: KeyLimits;
}

export interface OwnCounters {
  /** The limit that refuses one more request within the `share`; undefined if none does. The message names the key's whole limit. */
  readonly check: (key: LimitedKey, share: KeyLimits, nowMs: number) => Admission | undefined;
  /** Counts an admitted request. */
  readonly begin: (key: LimitedKey, share: KeyLimits, ticket: string, nowMs: number) => void;
  /** Charges the tokens; returns the key, or undefined for an unknown ticket. */
  readonly end: (ticket: string, tokens: number, nowMs: number) => LimitedKey | undefined;
  /** Tickets in flight by id of the key. */
  readonly inFlight: () => ReadonlyMap<string, readonly string[]>;
  /** Number of keys with counters. */
  readonly size: () => number;
}

interface Counters {
  readonly tickets: Set<string>;
  requests: Bucket | undefined;
  tokens: Bucket | undefined;
  share: KeyLimits;
}

/** Below this number of keys, counters that have recovered are kept. */
const SWEEP_FROM = 1_024;
/** When a request of the key will finish is unknown. */
const RETRY_CONCURRENT_MS = 1_000;

export function createOwnCounters(): OwnCounters {
  const byKey = new Map<string, Counters>();
  const byTicket = new Map<string, LimitedKey>();
  let sweepAt = SWEEP_FROM;
  const countersOf = (id: string, share: KeyLimits, nowMs: number): Counters => {
    const found = byKey.get(id) ?? { tickets: new Set(), requests: undefined, tokens: undefined, share };
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
    begin: (key, share, ticket, nowMs) => {
      if (byKey.size >= sweepAt) sweep(nowMs);
      const counters = countersOf(key.id, share, nowMs);
      byKey.set(key.id, counters);
      byTicket.set(ticket, key);
      counters.tickets.add(ticket);
      if (counters.requests !== undefined) counters.requests = take(counters.requests, 1);
    },
    end: (ticket, tokens, nowMs) => {
      const key = byTicket.get(ticket);
      const counters = key && byKey.get(key.id);
      if (counters === undefined) return undefined;
      byTicket.delete(ticket);
      counters.tickets.delete(ticket);
      counters.tokens = refilled(counters.tokens, counters.share.tokensPerMinute, nowMs);
      if (counters.tokens !== undefined) counters.tokens = take(counters.tokens, tokens);
      return key;
    },
    inFlight: () =>
      new Map([...byKey].flatMap(([id, { tickets }]) => (tickets.size > 0 ? [[id, [...tickets]]] : []))),
    size: () => byKey.size,
  };
}

/** Undefined if the key has no such limit (any more). */
function refilled(bucket: Bucket | undefined, perMinute: number | undefined, nowMs: number) {
  if (perMinute === undefined) return undefined;
  return bucket === undefined ? fullBucket(perMinute, nowMs) : refill(bucket, perMinute, nowMs);
}

function refusalOf({ limits }: LimitedKey, counters: Counters): Admission | undefined {
  const { share, tickets, requests, tokens } = counters;
  if (share.concurrentRequests !== undefined && tickets.size >= share.concurrentRequests)
    return refuse(limits, "concurrentRequests", RETRY_CONCURRENT_MS);
  const requestMs = waitOf(requests, share.requestsPerMinute);
  if (requestMs > 0) return refuse(limits, "requestsPerMinute", requestMs);
  const tokenMs = waitOf(tokens, share.tokensPerMinute);
  return tokenMs > 0 ? refuse(limits, "tokensPerMinute", tokenMs) : undefined;
}

function waitOf(bucket: Bucket | undefined, perMinute: number | undefined): number {
  return bucket === undefined || perMinute === undefined ? 0 : waitMs(bucket, perMinute);
}

function hasRecovered({ tickets, requests, tokens, share }: Counters, nowMs: number): boolean {
  const isFull = (bucket: Bucket | undefined, perMinute: number | undefined) =>
    perMinute === undefined || (refilled(bucket, perMinute, nowMs)?.level ?? perMinute) >= perMinute;
  return (
    tickets.size === 0 && isFull(requests, share.requestsPerMinute) && isFull(tokens, share.tokensPerMinute)
  );
}
