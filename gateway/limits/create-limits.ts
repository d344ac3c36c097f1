/** Admits requests by the limits of their keys, with counters of this process or of all gateways. */
import type { KeyLimits } from "../../src/gateway/key.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { repeat } from "../../src/util/repeat.ts";
import { type Admission, checkBudget, type Limits, refuse, type Spent } from "./limits.ts";
import { createOwnCounters, type LimitedKey } from "./own-counters.ts";
import type { SharedCounters } from "./shared-counters.ts";

export interface LimitsPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Number of gateways; each admits its share of the limits while no counters are shared. */
  readonly gateways: () => number;
  /** Tokens of the key on all gateways, from the usage records. */
  readonly spent: (id: string, nowMs: number) => Spent;
  readonly shared?: SharedCounters | undefined;
}

/** Several renewals fit into the expiry time of a request. */
const RENEW_MS = 20_000;
/** While counters are shared, those of this process only track requests in flight. */
const UNLIMITED: KeyLimits = {};

export function createLimits(ports: LimitsPorts): Limits {
  const { gateways, spent, shared } = ports;
  const own = createOwnCounters();
  const admitHere = (key: LimitedKey, requestId: string, nowMs: number): Admission => {
    const share = shareOf(key.limits, gateways());
    const refusal = own.check(key, share, nowMs);
    if (refusal !== undefined) return refusal;
    own.begin(key, share, requestId, nowMs);
    return { at: "admitted" };
  };
  const admit: Limits["admit"] = async (key, requestId, nowMs) => {
    const overBudget = hasBudget(key.limits) && checkBudget(key.limits, spent(key.id, nowMs), nowMs);
    if (overBudget) return overBudget;
    if (shared === undefined || !isCounted(key.limits)) return admitHere(key, requestId, nowMs);
    const answer = await shared.admit(key, requestId);
    if (answer.at === "unavailable") return admitHere(key, requestId, nowMs);
    if (answer.at === "refused") return refuse(key.limits, answer.limit, answer.waitMs);
    own.begin(key, UNLIMITED, requestId, nowMs);
    return { at: "admitted" };
  };
  if (shared !== undefined) repeat(ports, RENEW_MS, async () => shared.renew(own.inFlight()));
  return {
    admit,
    ended: (requestId, { tokensIn, tokensOut }, nowMs) => {
      const tokens = tokensIn + tokensOut;
      const key = own.end(requestId, tokens, nowMs);
      if (key !== undefined && isCounted(key.limits)) shared?.charge(key, requestId, tokens);
    },
  };
}

function hasBudget({ tokensPerDay, tokensPerMonth }: KeyLimits): boolean {
  return (tokensPerDay ?? tokensPerMonth) !== undefined;
}

function isCounted({ concurrentRequests, requestsPerMinute, tokensPerMinute }: KeyLimits): boolean {
  return (concurrentRequests ?? requestsPerMinute ?? tokensPerMinute) !== undefined;
}

/**
 * The share of one gateway without shared counters. Rates are divided exactly, concurrent requests are rounded up, because a
 * share of 0 would refuse every request. Budgets are not divided: every gateway reads the usage records of all.
 */
export function shareOf(limits: KeyLimits, gateways: number): KeyLimits {
  const parts = Math.max(1, gateways);
  const part = (limit: number | undefined) => (limit === undefined ? undefined : limit / parts);
  const concurrent = part(limits.concurrentRequests);
  return {
    ...limits,
    concurrentRequests: concurrent === undefined ? undefined : Math.ceil(concurrent),
    requestsPerMinute: part(limits.requestsPerMinute),
    tokensPerMinute: part(limits.tokensPerMinute),
  };
}
