/** Budgets of tokens per day and month, which begin at midnight UTC. Pure. */
import type { KeyLimits } from "../../src/gateway/key.ts";
import type { Admission } from "./limits.ts";
import { refuse } from "./refusal.ts";

export interface Spent {
  readonly today: number;
  readonly thisMonth: number;
}

/** Undefined if the budget is not spent. A request is admitted while anything is left, because its size is known only at its end. */
export function refuseByBudget(limits: KeyLimits, spent: Spent, nowMs: number): Admission | undefined {
  const { tokensPerDay = Number.POSITIVE_INFINITY, tokensPerMonth = Number.POSITIVE_INFINITY } = limits;
  if (spent.thisMonth >= tokensPerMonth) return refuse(limits, "tokensPerMonth", nextMonthMs(nowMs) - nowMs);
  if (spent.today >= tokensPerDay) return refuse(limits, "tokensPerDay", nextDayMs(nowMs) - nowMs);
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
