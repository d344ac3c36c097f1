/** Limits of keys: admission of a request and its end, refusals with their texts, and budgets of tokens. */
import type { KeyLimits } from "../../src/gateway/key.ts";

export type LimitName = keyof KeyLimits;

export type Admission =
  | { readonly at: "admitted" }
  | {
      readonly at: "refused";
      readonly limit: LimitName;
      readonly retryAfterSeconds: number;
      /** For the client: the problem, then what to do. */
      readonly message: string;
    };

export interface TokenUsage {
  /** Tokens of the prompt, including cached ones. */
  readonly tokensIn: number;
  readonly tokensOut: number;
  /** Tokens of the prompt that the engine took from its cache. */
  readonly cached: number;
  /** True if the engine reported no usage because the client left early. */
  readonly isEstimated: boolean;
}

export interface Limits {
  /** Counts the request from now until `ended`. Waits only for shared counters, for at most a fraction of a second. */
  readonly admit: (
    key: { readonly id: string; readonly limits: KeyLimits },
    requestId: string,
    nowMs: number,
  ) => Promise<Admission>;
  /** The request is answered: it no longer counts as concurrent. Unknown requests are ignored. */
  readonly answered: (requestId: string) => void;
  /** Must be called once for each admitted request, with a usage of 0 if it never reached an engine. Unknown requests are ignored. */
  readonly ended: (requestId: string, usage: TokenUsage, nowMs: number) => void;
}

const UNITS: Readonly<Record<LimitName, string>> = {
  concurrentRequests: "concurrent requests",
  requestsPerMinute: "requests per minute",
  tokensPerMinute: "tokens per minute",
  tokensPerDay: "tokens per day (UTC)",
  tokensPerMonth: "tokens per month (UTC)",
};

/** `waitMs` is the time until a retry can succeed. */
export function refusalFor(limits: KeyLimits, limit: LimitName, waitMs: number): Admission {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1_000));
  const what = `This API key has reached its limit of ${limits[limit] ?? 0} ${UNITS[limit]}.`;
  const message =
    limit === "concurrentRequests"
      ? `${what} Try again when one of its requests has finished.`
      : `${what} Try again in ${retryAfterSeconds} s.`;
  return { at: "refused", limit, retryAfterSeconds, message };
}

export interface Spent {
  readonly today: number;
  readonly thisMonth: number;
}

/** Undefined if tokens are left: the size of a request is known only at its end. Budgets start at midnight UTC. */
export function checkBudget(limits: KeyLimits, spent: Spent, nowMs: number): Admission | undefined {
  const { tokensPerDay = Number.POSITIVE_INFINITY, tokensPerMonth = Number.POSITIVE_INFINITY } = limits;
  if (spent.thisMonth >= tokensPerMonth)
    return refusalFor(limits, "tokensPerMonth", nextMonthMs(nowMs) - nowMs);
  if (spent.today >= tokensPerDay) return refusalFor(limits, "tokensPerDay", nextDayMs(nowMs) - nowMs);
  return undefined;
}

function nextDayMs(nowMs: number): number {
  const now = new Date(nowMs);
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1);
}

function nextMonthMs(nowMs: number): number {
  const now = new Date(nowMs);
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1);
}
