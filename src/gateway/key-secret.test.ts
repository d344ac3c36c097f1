import fc from "fast-check";
import { expect, test } from "vitest";
import { type GatewayKey, isInScope, keyState, rotateKey } from "./key.ts";
import {
  encodeKey,
  hashKey,
  isKeyText,
  KEY_FIELD,
  keyHint,
  keySecret,
  keyText,
  readKeySecret,
} from "./key-secret.ts";

const KEY: GatewayKey = {
  hashes: [{ sha256: "a".repeat(64), createdAt: "2026-11-01T00:00:00Z" }],
  owner: "team-a",
  scope: { namespaces: ["team-a"] },
  limits: { concurrentRequests: 4, tokensPerDay: 1_000_000 },
  priority: "high",
  weight: 3,
};
const at = (iso: string) => Date.parse(iso);
const secretWith = (text: string) => ({
  metadata: { name: "k" },
  data: { [KEY_FIELD]: Buffer.from(text).toString("base64") },
});
const problemOf = (content: unknown) => {
  const read = readKeySecret(secretWith(JSON.stringify(content)));
  return read.at === "invalid" ? read.problem : read.at;
};

test("a key is read from its Secret as it was written", () => {
  expect(readKeySecret(keySecret("gateway", "team-a", KEY))).toEqual({
    at: "valid",
    id: "team-a",
    key: KEY,
  });
});

test("limits, priority and weight have defaults, a scope has none", () => {
  const { hashes, owner } = KEY;
  expect(readKeySecret(secretWith(JSON.stringify({ hashes, owner, scope: "all" })))).toMatchObject({
    key: { limits: {}, priority: "normal", weight: 1 },
  });
  expect(problemOf({ hashes, owner })).toMatch(/scope/);
  const named = 'key.json: scope: is empty: list namespaces, services or models, or set it to "all"';
  expect([problemOf({ ...KEY, scope: {} }), problemOf({ ...KEY, scope: { models: [] } })]).toEqual([
    named,
    named,
  ]);
});

test("a Secret that is no key has a problem that names the field and not its value", () => {
  expect(readKeySecret({ metadata: { name: "k" } })).toMatchObject({ problem: "the Secret has no key.json" });
  expect(readKeySecret(secretWith("{"))).toMatchObject({ problem: "key.json is not JSON" });
  expect(problemOf({ ...KEY, hashes: [] })).toMatch(/^key\.json: hashes: /);
  expect(problemOf({ ...KEY, hashes: [{ sha256: "mbk_secret", createdAt: "now" }] })).toMatch(
    /^key\.json: hashes\.0\.sha256: (?!.*mbk_secret)/,
  );
  expect(problemOf({ ...KEY, limits: { requestsPerMinute: 0 } })).toMatch(/limits\.requestsPerMinute: /);
  expect(problemOf({ ...KEY, scope: { services: ["chat"] } })).toMatch(
    /scope\.services\.0: must be namespace\/name/,
  );
  expect(problemOf({ ...KEY, scope: "none" })).toMatch(/scope: must be "all"/);
  expect(problemOf({ ...KEY, extra: 1 })).toMatch(/extra/);
});

test("no content makes the reader fail", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      expect(readKeySecret(secretWith(text)).at).toBe("invalid");
      expect(readKeySecret({ metadata: { name: "k" }, data: { [KEY_FIELD]: text } }).at).toBe("invalid");
    }),
  );
});

test("a key has 256 random bits after a fixed prefix, and is stored as its SHA-256", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (random) => {
      const text = keyText(random);
      expect(isKeyText(text)).toBe(true);
      expect(text.startsWith(keyHint(text))).toBe(true);
      expect(encodeKey({ ...KEY, hashes: [{ sha256: hashKey(text), createdAt: "" }] })).not.toContain(text);
    }),
  );
  expect(() => keyText(new Uint8Array(16))).toThrow(/32/);
  for (const text of ["", "mbk_", "eyJhbGciOi", `mbk_${"a".repeat(44)}`, `mbk_${"a".repeat(42)}\n`])
    expect(isKeyText(text)).toBe(false);
});

test.each([
  ["all", true],
  [{ namespaces: ["team-a"] }, true],
  [{ namespaces: ["team"] }, false],
  [{ services: ["team-a/chat"] }, true],
  [{ services: ["team-b/chat"] }, false],
  [{ models: ["qwen"] }, true],
  [{ models: ["chat"] }, false],
  [{ models: ["qwe"], services: ["team-a/chat"] }, true],
] as const)("scope %j covers the service: %s", (scope, isCovered) => {
  const copy = structuredClone(scope) as GatewayKey["scope"];
  expect(isInScope(copy, { namespace: "team-a", name: "chat", names: ["qwen"] })).toBe(isCovered);
});

test("during a rotation both keys work, and only the new one after the overlap", () => {
  const added = { sha256: "b".repeat(64), createdAt: "2026-11-02T00:00:00Z" };
  const rotated = rotateKey(KEY, added, "2026-11-03T00:00:00Z");
  const [fresh, old] = rotated.hashes;
  expect(fresh).toEqual(added);
  const states = (iso: string) => [fresh, old].map((hash) => keyState(rotated, at(iso), hash));
  expect(states("2026-11-02T23:59:59Z")).toEqual(["active", "active"]);
  expect(states("2026-11-03T00:00:00Z")).toEqual(["active", "expired"]);
  const third = { sha256: "c".repeat(64), createdAt: "2026-11-02T01:00:00Z" };
  const again = rotateKey(rotated, third, "2026-11-04T00:00:00Z");
  expect(again.hashes.map(({ sha256 }) => sha256[0])).toEqual(["c", "b"]);
  expect(rotateKey({ ...KEY, hashes: rotated.hashes.slice(1) }, third, "2026-12-01T00:00:00Z")).toMatchObject(
    {
      hashes: [third, { expiresAt: "2026-11-03T00:00:00Z" }],
    },
  );
});

test("a revocation is stronger than an expiry, an expiry than a switch, and each holds for all hashes", () => {
  const expired = { ...KEY, expiresAt: "2026-11-02T00:00:00Z" };
  expect(keyState(expired, at("2026-11-01T00:00:00Z"))).toBe("active");
  expect(keyState(expired, at("2026-11-02T00:00:00Z"), KEY.hashes[0])).toBe("expired");
  expect(keyState({ ...expired, revokedAt: "2026-11-01T00:00:00Z" }, 0)).toBe("revoked");
  const disabled = { ...expired, disabledAt: "2026-11-01T00:00:00Z" };
  expect(keyState(disabled, at("2026-11-01T00:00:00Z"), KEY.hashes[0])).toBe("disabled");
  expect(keyState(disabled, at("2026-11-02T00:00:00Z"))).toBe("expired");
  expect(keyState({ ...disabled, revokedAt: "2026-11-01T00:00:00Z" }, 0)).toBe("revoked");
});
