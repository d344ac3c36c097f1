import fc from "fast-check";
import { expect, test } from "vitest";
import { truncate, truncateBytes } from "./text.ts";

const anyText = fc
  .array(fc.constantFrom("a", "é", "€", "😀", "🇩🇪"), { maxLength: 30 })
  .map((parts) => parts.join(""));

test("a text that fits is returned unchanged", () => {
  expect(truncate("four", 4)).toBe("four");
  expect(truncateBytes("né", 3)).toBe("né");
});

test("a text that is too long ends in an ellipsis within the limit", () => {
  expect(truncate("abcdef", 4)).toBe("abc…");
  expect(truncateBytes("abcdef", 5)).toBe("ab…");
});

test("no cut leaves half a character behind", () => {
  expect(truncate("ab😀cd", 4)).toBe("ab…");
  expect(truncateBytes("ab😀cdefg", 8)).toBe("ab…");
  fc.assert(
    fc.property(anyText, fc.nat(40), (text, limit) => {
      const byUnits = truncate(text, limit);
      expect(byUnits.isWellFormed()).toBe(true);
      expect(byUnits.length).toBeLessThanOrEqual(Math.max(1, limit));
      const byBytes = truncateBytes(text, limit);
      expect(byBytes).not.toContain("\ufffd");
      expect(Buffer.byteLength(byBytes)).toBeLessThanOrEqual(Math.max(3, limit));
    }),
  );
});
