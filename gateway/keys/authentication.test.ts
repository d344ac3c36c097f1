import fc from "fast-check";
import { expect, test } from "vitest";
import { readCredential } from "./authentication.ts";

test("no header makes the reader fail, and a credential has no blank and at most 16,384 characters", () => {
  const header = fc.oneof(fc.string(), fc.array(fc.string()), fc.constant(undefined));
  fc.assert(
    fc.property(header, header, (authorization, key) => {
      for (const headers of [
        { authorization, "x-api-key": key },
        { authorization: `Bearer ${authorization}` },
      ])
        expect(readCredential(headers)?.trim().length ?? 1).toBeGreaterThan(0);
    }),
  );
  const long = "a".repeat(16_384);
  expect(readCredential({ authorization: `Bearer ${long}` })).toBe(long);
  expect(readCredential({ authorization: `Bearer ${long}a`, "x-api-key": "b" })).toBeUndefined();
});
