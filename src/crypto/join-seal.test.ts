/** Only the machine that a token was sealed for can open it. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { createJoinKey, openSealed, sealFor } from "./join-seal.ts";

const own = createJoinKey();

test("any text is opened with the key that it was sealed for, and with no other", () => {
  const other = createJoinKey();
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 2_000 }), (text) => {
      const sealed = sealFor(own.publicKey, text) ?? "";
      expect(openSealed(own, sealed)).toBe(text);
      expect(openSealed(other, sealed)).toBeUndefined();
      expect(openSealed({ ...own, publicKey: other.publicKey }, sealed)).toBeUndefined();
    }),
    { numRuns: 10 },
  );
});

test("a sealed token that was changed or truncated is not opened", () => {
  const sealed = Buffer.from(sealFor(own.publicKey, "a token") ?? "", "base64url");
  for (let index = 0; index < sealed.length; index += 1) {
    const changed = Buffer.from(sealed);
    changed.writeUInt8(changed.readUInt8(index) ^ 1, index);
    expect([index, openSealed(own, changed.toString("base64url"))]).toEqual([index, undefined]);
    expect(openSealed(own, sealed.subarray(0, index).toString("base64url"))).toBeUndefined();
  }
});

test.each([
  ["zero", "00".repeat(32)],
  ["one", `01${"00".repeat(31)}`],
  ["of low order", "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"],
  ["too short", "ab"],
  ["empty", ""],
])("nothing is sealed for a key that is %s", (_, publicKey) => {
  expect(sealFor(publicKey, "a token")).toBeUndefined();
});
