import { expect, test } from "vitest";
import { renderUsageRecord } from "../../src/gateway/usage-record.ts";
import { createUsageCounters, OTHER } from "./day-record.ts";

const ONE = { requests: 1, estimatedRequests: 0, tokensIn: 10, tokensOut: 5, tokensCached: 2 };
const OF = { key: "ada", namespace: "team-a", model: "chat", host: "mac-1" };

test("usage of the same key, namespace, model and host is one row", () => {
  const counters = createUsageCounters([{ ...OF, ...ONE }]);
  counters.add(OF, ONE);
  counters.add({ ...OF, host: "mac-2" }, ONE);
  expect(counters.rows()).toEqual([
    { ...OF, requests: 2, estimatedRequests: 0, tokensIn: 20, tokensOut: 10, tokensCached: 4 },
    { ...OF, host: "mac-2", ...ONE },
  ]);
});

test("too many rows are counted per key, then together, and no token is lost", () => {
  const counters = createUsageCounters([], { detailedBytes: 1_000, keyedBytes: 1_500 });
  for (let key = 0; key < 20; key += 1)
    for (let host = 0; host < 5; host += 1)
      counters.add({ ...OF, key: `key-${key}`, host: `mac-${host}` }, ONE);
  const rows = counters.rows();
  expect(rows.reduce((sum, { tokensIn }) => sum + tokensIn, 0)).toBe(1_000);
  expect(rows.filter(({ key, host }) => key !== OTHER && host === OTHER).length).toBeGreaterThan(0);
  expect(rows.filter(({ key }) => key === OTHER)).toHaveLength(1);
  expect(rows.length).toBeLessThan(20);
});

test("the largest record fits into a ConfigMap", () => {
  const counters = createUsageCounters();
  const name = "x".repeat(50);
  for (let index = 0; index < 30_000; index += 1)
    counters.add({ key: `${name}-${index}`, namespace: "team", model: `"${name}"`, host: name }, ONE);
  const record = renderUsageRecord({ namespace: "a", gateway: "b", day: "2026-11-27" }, counters.rows());
  expect(JSON.stringify(record).length).toBeLessThan(1_000_000);
});
