import fc from "fast-check";
import { expect, test } from "vitest";
import { ACCOUNT_PREFIX } from "../api/access/account.ts";
import { readTokenClaims } from "./token.ts";

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Any JSON, or something that is nearly a token's. */
const claims = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      sub: fc.oneof(
        fc.string(),
        fc.string().map((name) => ACCOUNT_PREFIX + name),
        fc.jsonValue(),
      ),
      iat: fc.oneof(fc.nat(), fc.jsonValue()),
      exp: fc.oneof(fc.nat(), fc.jsonValue()),
      "kubernetes.io": fc.oneof(
        fc.record({ secret: fc.record({ name: fc.oneof(fc.string(), fc.jsonValue()) }) }),
        fc.jsonValue(),
      ),
    },
    { requiredKeys: [] },
  ),
);

test("any text has the claims of an account, or none", () => {
  const token = fc.oneof(
    fc.string(),
    claims.map((payload) => `x.${encode(payload)}.x`),
    fc.tuple(claims, fc.nat()).map(([payload, cut]) => `x.${encode(payload).slice(0, cut % 200)}`),
  );
  fc.assert(
    fc.property(token, (text) => {
      const read = readTokenClaims(text);
      if (read === undefined) return;
      const { host, secret, subject } = read;
      expect(read).toMatchObject({ issuedAt: expect.any(Number), expiresAt: expect.any(Number) });
      if (host === undefined) expect(subject.startsWith(ACCOUNT_PREFIX)).toBe(false);
      else expect(subject).toBe(ACCOUNT_PREFIX + host);
      expect(["string", "undefined"]).toContain(typeof secret);
    }),
    { numRuns: 300 },
  );
});

test("claims are read exactly where they have a subject and both times, and the host is the one in the subject", () => {
  fc.assert(
    fc.property(claims, (payload) => {
      const { sub, iat, exp } = Object(payload) as Record<string, unknown>;
      const isToken = typeof sub === "string" && typeof iat === "number" && typeof exp === "number";
      expect(readTokenClaims(`x.${encode(payload)}.x`)?.subject).toBe(isToken ? sub : undefined);
    }),
    { numRuns: 300 },
  );
});
