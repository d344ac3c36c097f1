import { expect, test } from "vitest";
import { createRejectionRetries } from "./retries.ts";

test("a rejected object is retried within 3 s, however long it has been rejected and however many passes come in between", () => {
  const retries = createRejectionRetries();
  for (let pass = 0; pass < 50; pass += 1) expect(retries.note("a/b", true, 0)).toBeLessThanOrEqual(1_000);
  expect(retries.note("a/b", true, 2_000)).toBeGreaterThanOrEqual(1_000);
  expect(retries.note("a/b", true, 3_600_000)).toBeGreaterThanOrEqual(1_500);
  expect(retries.note("a/b", true, 3_600_000)).toBeLessThanOrEqual(3_000);
  expect(retries.note("a/b", false, 3_600_001)).toBeUndefined();
  expect(retries.note("a/b", true, 3_600_002)).toBeLessThanOrEqual(1_000);
});

test("two thousand rejected services are retried at a total of about ten per second", () => {
  const retries = createRejectionRetries();
  const keys = Array.from({ length: 2_000 }, (_, index) => `a/${index}`);
  for (const key of keys) retries.note(key, true, 0);
  const delays = keys.map((key) => retries.note(key, true, 3_600_000) ?? 0);
  expect(delays.reduce((sum, delayMs) => sum + 1_000 / delayMs, 0)).toBeLessThan(20);
  for (const key of keys.slice(1)) retries.forget(key);
  expect(retries.note("a/0", true, 3_600_000)).toBeLessThanOrEqual(3_000);
});
