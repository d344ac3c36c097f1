import fc from "fast-check";
import { expect, test } from "vitest";
import type { KeyLimits } from "../../src/gateway/key.ts";
import { shareOf } from "../accounting.ts";
import { checkBudget } from "./limits.ts";
import { createOwnCounters } from "./own-counters.ts";

const rate = fc.option(fc.integer({ min: 1, max: 50 }), { nil: undefined });
const limitsArbitrary: fc.Arbitrary<KeyLimits> = fc.record({
  concurrentRequests: rate,
  requestsPerMinute: rate,
  tokensPerMinute: rate,
});
const stepsArbitrary = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 20_000 }),
    isArrival: fc.boolean(),
    tokens: fc.integer({ min: 0, max: 100 }),
  }),
  { maxLength: 120 },
);

/** Arrivals and ends of requests of one key, in order. */
function play(limits: KeyLimits, steps: readonly { afterMs: number; isArrival: boolean; tokens: number }[]) {
  const counters = createOwnCounters();
  const key = { id: "a", limits };
  const open: string[] = [];
  const admittedAt: number[] = [];
  const charged: { at: number; tokens: number }[] = [];
  let nowMs = 1_000_000;
  let most = 0;
  for (const [index, { afterMs, isArrival, tokens }] of steps.entries()) {
    nowMs += afterMs;
    if (isArrival) {
      const refusal = counters.check(key, limits, nowMs);
      if (refusal !== undefined) continue;
      counters.begin(key, limits, `t${index}`, nowMs);
      open.push(`t${index}`);
      admittedAt.push(nowMs);
      most = Math.max(most, open.length);
    } else {
      const ticket = open.shift();
      if (ticket === undefined) continue;
      counters.end(ticket, tokens, nowMs);
      charged.push({ at: nowMs, tokens });
    }
  }
  return { counters, key, open, admittedAt, charged, nowMs, most };
}

test("a request that is answered leaves its place, and is charged even if thousands of keys came meanwhile", () => {
  const counters = createOwnCounters();
  const key = { id: "a", limits: { concurrentRequests: 1, tokensPerMinute: 100 } };
  counters.begin(key, key.limits, "first", 0);
  expect(counters.check(key, key.limits, 0)).toMatchObject({ limit: "concurrentRequests" });
  expect(counters.leave("first")).toBe(key);
  expect(counters.check(key, key.limits, 0)).toBeUndefined();
  for (let index = 0; index < 3_000; index += 1) {
    counters.begin({ id: `other-${index}`, limits: {} }, {}, `r${index}`, 0);
    counters.end(`r${index}`, 0, 0);
  }
  expect(counters.end("first", 200, 0)).toBe(key);
  expect(counters.check(key, key.limits, 0)).toMatchObject({ limit: "tokensPerMinute" });
  expect(counters.leave("first")).toBeUndefined();
});

test("no sequence of requests exceeds the concurrent requests or, in any window, a minute's burst plus the rate", () => {
  fc.assert(
    fc.property(limitsArbitrary, stepsArbitrary, (limits, steps) => {
      const { admittedAt, most } = play(limits, steps);
      expect(most).toBeLessThanOrEqual(limits.concurrentRequests ?? Number.POSITIVE_INFINITY);
      const perMinute = limits.requestsPerMinute ?? 1e9;
      for (const [from, start] of admittedAt.entries())
        for (const [to, end] of admittedAt.entries())
          if (to >= from)
            expect(to - from + 1).toBeLessThanOrEqual(
              perMinute + ((end - start) * perMinute) / 60_000 + 1e-3,
            );
    }),
  );
});

test("a refused key is admitted after the time in Retry-After, once its requests have finished", () => {
  fc.assert(
    fc.property(limitsArbitrary, stepsArbitrary, (limits, steps) => {
      const { counters, key, open, nowMs } = play(limits, steps);
      for (const ticket of open) counters.end(ticket, 7, nowMs);
      const refusal = counters.check(key, limits, nowMs);
      if (refusal?.at !== "refused") return;
      let laterMs = nowMs + refusal.retryAfterSeconds * 1_000;
      // The other bucket may need longer: each response names its own time.
      const second = counters.check(key, limits, laterMs);
      if (second?.at === "refused") {
        expect(second.limit).not.toBe(refusal.limit);
        laterMs += second.retryAfterSeconds * 1_000;
      }
      expect(counters.check(key, limits, laterMs)).toBeUndefined();
    }),
  );
});

test("tokens over the limit are paid back before the next request", () => {
  const limits = { tokensPerMinute: 600 };
  const counters = createOwnCounters();
  const key = { id: "a", limits };
  counters.begin(key, limits, "t", 0);
  counters.end("t", 1_800, 0);
  expect(counters.check(key, limits, 0)).toEqual({
    at: "refused",
    limit: "tokensPerMinute",
    retryAfterSeconds: 121,
    message: "This API key has reached its limit of 600 tokens per minute. Try again in 121 s.",
  });
  expect(counters.check(key, limits, 119_000)).toMatchObject({ at: "refused" });
  expect(counters.check(key, limits, 120_100)).toBeUndefined();
});

test("a changed limit holds for the next request, and a limit that was removed limits nothing", () => {
  const counters = createOwnCounters();
  const ask = (limits: KeyLimits) => {
    const key = { id: "a", limits };
    const refusal = counters.check(key, limits, 0);
    if (refusal === undefined) counters.begin(key, limits, String(Math.random()), 0);
    return refusal?.at === "refused" ? refusal.limit : "admitted";
  };
  expect([1, 2, 3].map(() => ask({ requestsPerMinute: 2 }))).toEqual([
    ...["admitted", "admitted", "requestsPerMinute"],
  ]);
  expect(ask({ concurrentRequests: 2 })).toBe("concurrentRequests");
  expect(ask({ concurrentRequests: 3 })).toBe("admitted");
  expect(ask({})).toBe("admitted");
});

test("an unknown or repeated end changes nothing", () => {
  const counters = createOwnCounters();
  const key = { id: "a", limits: { concurrentRequests: 1 } };
  counters.begin(key, key.limits, "t", 0);
  expect([counters.end("x", 1, 0), counters.end("t", 1, 0), counters.end("t", 1, 0)]).toEqual([
    ...[undefined, key, undefined],
  ]);
  expect(counters.inFlight().size).toBe(0);
});

test("keys that have recovered are forgotten, those with requests in flight or in debt are kept", () => {
  const counters = createOwnCounters();
  const begin = (id: string, limits: KeyLimits, nowMs: number) =>
    counters.begin({ id, limits }, limits, `ticket-${id}`, nowMs);
  for (let index = 0; index < 2_000; index += 1) {
    begin(`k${index}`, { requestsPerMinute: 10 }, 0);
    if (index !== 5) counters.end(`ticket-k${index}`, 0, 0);
  }
  for (let index = 0; index < 3_000; index += 1) {
    begin(`l${index}`, {}, 60_000);
    counters.end(`ticket-l${index}`, 0, 60_000);
  }
  expect(counters.size()).toBeLessThan(2_200);
  expect([...counters.inFlight()]).toEqual([["k5", ["ticket-k5"]]]);
});

test("the shares of all gateways add up to the limit of a rate, and none is zero", () => {
  const count = fc.integer({ min: 1, max: 20 });
  fc.assert(
    fc.property(count, count, (limit, gateways) => {
      const share = shareOf(
        { concurrentRequests: limit, requestsPerMinute: limit, tokensPerDay: limit },
        gateways,
      );
      expect((share.requestsPerMinute ?? 0) * gateways).toBeCloseTo(limit);
      expect(share.concurrentRequests).toBeGreaterThanOrEqual(1);
      expect((share.concurrentRequests ?? 0) * gateways).toBeLessThan(limit + gateways);
      expect(share.tokensPerDay).toBe(limit);
    }),
  );
  expect(shareOf({}, 3)).toEqual({});
});

test("budgets end at midnight UTC, and the month's is named when both are spent", () => {
  const nowMs = Date.parse("2026-11-30T23:00:00Z");
  const limits = { tokensPerDay: 100, tokensPerMonth: 1_000 };
  expect(checkBudget(limits, { today: 99, thisMonth: 999 }, nowMs)).toBeUndefined();
  expect(checkBudget(limits, { today: 100, thisMonth: 100 }, nowMs)).toMatchObject({
    limit: "tokensPerDay",
    retryAfterSeconds: 3_600,
    message: "This API key has reached its limit of 100 tokens per day (UTC). Try again in 3600 s.",
  });
  expect(
    checkBudget(limits, { today: 0, thisMonth: 1_000 }, Date.parse("2026-12-01T00:00:00Z")),
  ).toMatchObject({ limit: "tokensPerMonth", retryAfterSeconds: 31 * 86_400 });
  expect(checkBudget({}, { today: 1e15, thisMonth: 1e15 }, nowMs)).toBeUndefined();
});
