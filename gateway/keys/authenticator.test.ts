import { expect, test } from "vitest";
import type { GatewayKey } from "../../src/gateway/key.ts";
import { hashKey, keySecret, keyText } from "../../src/gateway/key-secret.ts";
import type { RequestHeaders } from "./authentication.ts";
import { type AuthenticatorPorts, createAuthenticator } from "./authenticator.ts";
import { createKeyIndex } from "./key-index.ts";
import type { UserLookup } from "./users.ts";

const TEXT = keyText(new Uint8Array(32).fill(7));
const OTHER = keyText(new Uint8Array(32).fill(8));
const NOW = Date.parse("2026-11-27T12:00:00Z");
const CHAT = { namespace: "team-a", name: "chat", names: ["qwen"] };

function keyOf(text: string, changed: Partial<GatewayKey> = {}): GatewayKey {
  const hashes = [{ sha256: hashKey(text), createdAt: "2026-11-01T00:00:00Z" }];
  const defaults = { limits: {}, priority: "normal", weight: 1 } as const;
  return { hashes, owner: "ada", scope: { namespaces: ["team-a"] }, ...defaults, ...changed };
}

function setUp(changed: Partial<AuthenticatorPorts> = {}) {
  const keys = createKeyIndex();
  const put = (id: string, key: GatewayKey) => keys.put(keySecret("gateway", id, key));
  const ports = {
    ...{ keys, isSynced: () => true, nowMs: () => NOW, isOpenWithoutKeys: () => false, corsOrigins: [] },
    ...changed,
  };
  const { authenticate } = createAuthenticator(ports);
  const ask = async (headers: RequestHeaders) => {
    const result = await authenticate({ host: "127.0.0.1:4000", ...headers });
    return result.at === "refused" ? result.reason : result.caller.id;
  };
  return { keys, put, authenticate, ask };
}

test("a key is accepted in the headers of both dialects, and gives its scope, limits, priority and weight", async () => {
  const { put, ask, authenticate } = setUp();
  put("ada", keyOf(TEXT, { limits: { concurrentRequests: 2 }, priority: "high", weight: 5 }));
  expect(await ask({ authorization: `Bearer ${TEXT}` })).toBe("ada");
  expect(await ask({ authorization: `bearer  ${TEXT} ` })).toBe("ada");
  expect(await ask({ "x-api-key": TEXT })).toBe("ada");
  expect(await ask({ authorization: "Basic YTpi", "x-api-key": TEXT })).toBe("ada");
  const result = await authenticate({ "x-api-key": TEXT });
  if (result.at === "refused") throw new Error(result.message);
  expect(result.caller).toMatchObject({
    ...{ owner: "ada", priority: "high", weight: 5, limits: { concurrentRequests: 2 } },
  });
  expect(await result.caller.mayUse(CHAT)).toBe("allowed");
  expect(await result.caller.mayUse({ ...CHAT, namespace: "team-b" })).toBe("forbidden");
});

test("missing, unknown, expired, disabled and revoked keys are refused, each with its own message", async () => {
  const { put, ask, authenticate } = setUp();
  put("expired", keyOf(TEXT, { expiresAt: "2026-11-27T12:00:00Z" }));
  put("revoked", keyOf(OTHER, { revokedAt: "2026-11-27T11:59:59Z" }));
  const attempts = [{}, { authorization: TEXT }, { "x-api-key": [TEXT, OTHER] }];
  for (const headers of attempts) expect(await ask(headers)).toBe("missing");
  expect(await ask({ "x-api-key": keyText(new Uint8Array(32)) })).toBe("unknown");
  expect(await ask({ "x-api-key": hashKey(TEXT) })).toBe("unknown");
  expect(await ask({ "x-api-key": TEXT })).toBe("expired");
  expect(await ask({ "x-api-key": OTHER })).toBe("revoked");
  put("expired", keyOf(TEXT, { disabledAt: "2026-11-27T11:59:59Z" }));
  expect(await ask({ "x-api-key": TEXT })).toBe("disabled");
  expect(await authenticate({ "x-api-key": OTHER })).toMatchObject({
    message: expect.stringMatching(/^This API key was revoked\. Request a new one/),
  });
});

test("a changed, deleted or broken Secret takes effect with the next request", async () => {
  const { keys, put, ask } = setUp();
  put("ada", keyOf(TEXT));
  expect(await ask({ "x-api-key": TEXT })).toBe("ada");
  put("ada", keyOf(TEXT, { revokedAt: "2026-11-27T11:59:59Z" }));
  expect(await ask({ "x-api-key": TEXT })).toBe("revoked");
  put("ada", keyOf(OTHER));
  expect([await ask({ "x-api-key": TEXT }), await ask({ "x-api-key": OTHER })]).toEqual(["unknown", "ada"]);
  keys.put({ metadata: { name: "ada" }, data: { "key.json": "AAAA" } });
  expect(await ask({ "x-api-key": OTHER })).toBe("unknown");
  expect(keys.problems().get("ada")).toBe("key.json is not JSON");
  put("ada", keyOf(OTHER));
  keys.drop("ada");
  expect([await ask({ "x-api-key": OTHER }), keys.size(), keys.problems().size]).toEqual(["unknown", 0, 0]);
});

test("a copied Secret gains nothing: the first name keeps the hash, and the other has a problem", async () => {
  const { keys, put, ask } = setUp();
  put("b", keyOf(TEXT, { scope: "all" }));
  expect(await ask({ "x-api-key": TEXT })).toBe("b");
  put("a", keyOf(TEXT));
  expect(await ask({ "x-api-key": TEXT })).toBe("a");
  expect([...keys.problems()]).toEqual([["b", "has the same hash as the Secret a, which is used instead"]]);
});

test("before the keys are read every request is refused temporarily, also on loopback", async () => {
  const { ask } = setUp({ isSynced: () => false, isOpenWithoutKeys: () => true });
  expect(await ask({})).toBe("unavailable");
  expect(await ask({ "x-api-key": TEXT })).toBe("unavailable");
});

test("a gateway on loopback accepts everything until a Secret is labeled as a key, even an invalid one", async () => {
  const { keys, ask } = setUp({ isOpenWithoutKeys: () => true });
  expect([await ask({}), await ask({ "x-api-key": "anything" })]).toEqual(["anonymous", "anonymous"]);
  keys.put({ metadata: { name: "broken" } });
  expect([await ask({}), await ask({ "x-api-key": "anything" })]).toEqual(["missing", "unknown"]);
  const listening = { onLoopback: false };
  const other = setUp({ isOpenWithoutKeys: () => listening.onLoopback });
  expect([await other.ask({}), await other.ask({ "x-api-key": TEXT })]).toEqual(["missing", "unknown"]);
  listening.onLoopback = true;
  expect(await other.ask({})).toBe("anonymous");
});

test.each([
  [{ host: "localhost:4000" }, [], "anonymous"],
  [{ host: "[::1]:4000", origin: "http://localhost:3000" }, [], "anonymous"],
  [{ host: "rebound.example:4000" }, [], "foreign"],
  [{ host: "10.0.0.7:4000" }, [], "foreign"],
  [{ host: "localhost.evil.example" }, [], "foreign"],
  [{ host: "" }, [], "foreign"],
  [{ host: undefined }, [], "foreign"],
  [{ origin: "https://evil.example" }, [], "foreign"],
  [{ origin: "null" }, [], "foreign"],
  [{ origin: ["http://localhost", "https://evil.example"] }, [], "foreign"],
  [{ origin: "https://chat.example" }, ["https://chat.example"], "anonymous"],
  [{ origin: "https://evil.example" }, ["https://chat.example"], "foreign"],
  [{ origin: "https://any.example" }, ["*"], "anonymous"],
  [{ host: "rebound.example", origin: "https://chat.example" }, ["https://chat.example"], "foreign"],
])("a gateway without keys knows %j, with pages of %j, as %s", async (headers, corsOrigins, expected) => {
  const { ask } = setUp({ isOpenWithoutKeys: () => true, corsOrigins });
  expect(await ask(headers)).toBe(expected);
});

test("other credentials are reviewed as tokens of Kubernetes only where that is enabled, and keys never", async () => {
  const reviewed: string[] = [];
  const responses: Record<string, UserLookup["at"]> = { good: "user", bad: "stranger", later: "unavailable" };
  const { put, ask } = setUp({
    identifyUser: async (token) => {
      reviewed.push(token);
      const at = responses[token] ?? "stranger";
      const mayUse = async () => "allowed" as const;
      const caller = { id: `user:${token}`, owner: token, mayUse, priority: "normal", weight: 1, limits: {} };
      return (at === "user" ? { at, caller } : { at, why: "" }) as UserLookup;
    },
  });
  put("ada", keyOf(TEXT));
  const asked = ["good", "bad", "later", TEXT, OTHER].map((token) =>
    ask({ authorization: `Bearer ${token}` }),
  );
  expect(await Promise.all(asked)).toEqual(["user:good", "unknown", "unavailable", "ada", "unknown"]);
  expect(reviewed).toEqual(["good", "bad", "later"]);
  expect(await setUp().ask({ authorization: "Bearer good" })).toBe("unknown");
});
