import { expect, test } from "vitest";
import { canonicalJson, hash, sha256Hex } from "./hash.ts";

test.for([
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  [
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
  ],
  ["a".repeat(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"],
])("the published SHA-256 vector %#", ([text = "", digest = ""]) => {
  expect(sha256Hex(text)).toBe(digest);
});

test("short digests are ten hex digits by default", () => {
  expect(hash("abc")).toBe("ba7816bf8f");
  expect(hash("abc", 16)).toHaveLength(16);
});

test("canonical JSON does not depend on the order of keys, or on undefined fields", () => {
  expect(canonicalJson({ b: 1, a: { d: undefined, c: [2, { z: 1, y: 2 }] } })).toBe(
    '{"a":{"c":[2,{"y":2,"z":1}]},"b":1}',
  );
  expect(canonicalJson(undefined)).toBe("null");
});
