import fc from "fast-check";
import { expect, test } from "vitest";
import { userJwtHeaders } from "../testing/user-jwt.ts";
import { readCredential, userOf } from "./authentication.ts";

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

const NOW = Date.parse("2026-11-01T12:00:00Z");
const sign = (claims: object, secret = "s3cret") => userJwtHeaders(claims, secret);

test("a user is known by a token that the secret has signed", () => {
  expect(userOf(sign({ id: "ann", email: "a@example.com" }), "s3cret", NOW)).toBe("ann");
  const claims = {
    sub: "u-1",
    email: "a@example.com",
    role: "user",
    iss: "open-webui",
    exp: NOW / 1_000 + 300,
  };
  expect(userOf(sign(claims), "s3cret", NOW)).toBe("u-1");
  expect(userOf(sign({ id: "ann", exp: NOW / 1_000 - 1 }), "s3cret", NOW)).toBeUndefined();
  expect(userOf(sign({ id: "ann" }, "other"), "s3cret", NOW)).toBeUndefined();
  expect(userOf({ "x-openwebui-user-jwt": "a.b" }, "s3cret", NOW)).toBeUndefined();
  expect(userOf({}, "s3cret", NOW)).toBeUndefined();
});
