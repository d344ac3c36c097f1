import fc from "fast-check";
import { expect, test } from "vitest";
import { apiKeysIn } from "./secrets.ts";

const keysIn = (keys: readonly string[]) => apiKeysIn(keys.join("\n"), "Secret n/s", "keys");

test("up to 1,000 keys of up to 1,024 bytes are accepted, and no more or longer ones", () => {
  const count = fc.oneof(fc.integer({ min: 1, max: 1_000 }), fc.integer({ min: 1_001, max: 3_000 }));
  const bytes = fc.oneof(fc.integer({ min: 1, max: 1_024 }), fc.integer({ min: 1_025, max: 3_000 }));
  fc.assert(
    fc.property(count, bytes, (keys, longest) => {
      const given = ["k".repeat(longest), ...Array.from({ length: keys - 1 }, (_, index) => `key-${index}`)];
      if (keys > 1_000 || longest > 1_024) expect(() => keysIn(given)).toThrow("Secret n/s");
      else expect(keysIn(given)).toEqual(given);
    }),
  );
});

test("a Secret without a key is refused, because the service would accept every client", () => {
  expect(() => keysIn(["", "  "])).toThrow("Secret n/s has no key keys");
});
