/** Admission of requests by the limits of their keys: in this process, or by counters that several gateways share. */
import type { KeyLimits } from "../../src/gateway/key.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { repeat } from "../../src/util/repeat.ts";
import { refuseByBudget, type Spent } from "./budget.ts";
import type { Admission, LimitName, Limits } from "./limits.ts";
import { createOwnCounters, type LimitedKey } from "./own-counters.ts";
import { refuse } from "./refusal.ts";
import { shareOf } from "./share.ts";
import type { SharedCounters } from "./shared-counters.ts";

export interface LimitsPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Number of gateways that serve this namespace; each admits its share while no counters are shared. */
  readonly gateways: () => number;
  /** Tokens of the key on all gateways, from the usage records. */
  readonly spent: (id: string, nowMs: number) => Spent;
  readonly shared?: SharedCounters | undefined;
  readonly countRefusal?: ((id: string, limit: LimitName) => void) | undefined;
}

/** Tickets are renewed several times before they would expire. */
const RENEW_MS = 20_000;
/** While counters are shared, those of this process only record tickets in flight. */
const UNLIMITED: KeyLimits = {};

export function createLimits(ports: LimitsPorts): Limits {
  const { gateways, spent, shared, countRefusal = () => undefined } = ports;
  const own = createOwnCounters();
  const admitHere = (key: LimitedKey, ticket: string, nowMs: number): Admission => {
    const share = shareOf(key.limits, gateways());
    const refusal = own.check(key, share, nowMs);
    if (refusal !== undefined) return refusal;
    own.begin(key, share, ticket, nowMs);
    return { at: "admitted" };
  };
  const admit = async (key: LimitedKey, ticket: string, nowMs: number): Promise<Admission> => {
    const overBudget = hasBudget(key.limits) && refuseByBudget(key.limits, spent(key.id, nowMs), nowMs);
    if (overBudget) return overBudget;
    if (shared === undefined || !isCounted(key.limits)) return admitHere(key, ticket, nowMs);
    const answer = await shared.admit(key, ticket);
    if (answer.at === "unavailable") return admitHere(key, ticket, nowMs);
    if (answer.at === "refused") return refuse(key.limits, answer.limit, answer.waitMs);
    own.begin(key, UNLIMITED, ticket, nowMs);
    return { at: "admitted" };
  };
  if (shared !== undefined) repeat(ports, RENEW_MS, async () => shared.renew(own.inFlight()));
  return {
    admit: async (key, ticket, nowMs) => {
      const admission = await admit(key, ticket, nowMs);
      if (admission.at === "refused") countRefusal(key.id, admission.limit);
      return admission;
    },
    ended: (ticket, { tokensIn, tokensOut }, nowMs) => {
      const tokens = tokensIn + tokensOut;
      const key = own.end(ticket, tokens, nowMs);
      if (key !== undefined && isCounted(key.limits)) shared?.charge(key, ticket, tokens);
    },
  };
}

function hasBudget({ tokensPerDay, tokensPerMonth }: KeyLimits): boolean {
  return (tokensPerDay ?? tokensPerMonth) !== undefined;
}

function isCounted({ concurrentRequests, requestsPerMinute, tokensPerMinute }: KeyLimits): boolean {
  return (concurrentRequests ?? requestsPerMinute ?? tokensPerMinute) !== undefined;
}
