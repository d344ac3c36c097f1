import { expect, test } from "vitest";
import { createRejectionRetries } from "./retries.ts";

test("the pause before a rejected object is retried grows with time, however many passes come in between", () => {
  const retries = createRejectionRetries();
  for (let pass = 0; pass < 50; pass += 1) expect(retries.afterMs("a/b", true, 0)).toBeLessThanOrEqual(1_000);
  expect(retries.afterMs("a/b", true, 16_000)).toBeGreaterThanOrEqual(8_000);
  expect(retries.afterMs("a/b", true, 16_000)).toBeLessThanOrEqual(16_000);
  expect(retries.afterMs("a/b", true, 3_600_000)).toBeLessThanOrEqual(60_000);
  expect(retries.afterMs("a/b", false, 3_600_001)).toBeUndefined();
  expect(retries.afterMs("a/b", true, 3_600_002)).toBeLessThanOrEqual(1_000);
});
