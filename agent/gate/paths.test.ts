/** Which routes clients reach, by the engine's API and version. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { GATED_ROUTES } from "../../src/engines/gated-routes.ts";
import { isRejection } from "./body/rejection.ts";
import { CHAT_PATH, post, startPair } from "./fixtures/route.ts";
import { admitRequest, pathRulesOf } from "./paths.ts";

const outcome = (method: string, path: string, protocol: "openai" | "ollama", engineVersion?: string) => {
  const found = admitRequest(
    method,
    path,
    pathRulesOf({ protocol, ...(engineVersion && { engineVersion }) }),
  );
  return "status" in found ? `${found.status} ${found.message}` : found.kind;
};

test.each([
  ["0.14.0", "json"],
  ["0.14.3-rc1", "json"],
  ["0.20.1", "json"],
  ["1.0.0", "json"],
  ["development build", "json"],
  ["0.13.5", "404 /v1/messages needs version 0.14.0 of the engine; update it on the host"],
  [undefined, "404 /v1/messages needs version 0.14.0 of the engine; update it on the host"],
])("Anthropic's messages with Ollama %s: %s", (version, expected) => {
  expect(outcome("POST", "/v1/messages", "ollama", version)).toBe(expected);
});

test("every listed route is passed by its own method only, and nothing beside the lists is", () => {
  for (const protocol of ["openai", "ollama"] as const) {
    for (const { path, kind } of GATED_ROUTES[protocol]) {
      expect(outcome(kind === "json" ? "POST" : "GET", path, protocol, "99")).toBe(kind);
      expect(outcome(kind === "json" ? "GET" : "POST", path, protocol, "99")).toMatch(/^40[35]/);
    }
    for (const path of ["/v1/files", "/api/version", "/v1/messages/batches", "/api/experimental/x"])
      expect(outcome("POST", path, protocol, "99")).toMatch(/^404/);
  }
});

test("a request for messages reaches the daemon with its model, and the client's key does not", async () => {
  await using pair = await startPair({ protocol: "ollama", engineVersion: "0.14.1" });
  const body = { model: "chat", max_tokens: 5, messages: [{ role: "user", content: "Hi" }] };
  const answer = await post(`${pair.url}/v1/messages`, body, { "x-api-key": "client" });
  expect(answer.status).toBe(200);
  expect(pair.daemon.received[0]).toMatchObject({ url: "/v1/messages" });
  expect(JSON.parse(pair.daemon.received[0]?.body ?? "")).toEqual({ ...body, model: pair.route.model });
  expect(pair.daemon.received[0]?.headers).not.toHaveProperty("x-api-key");
  expect((await post(pair.url + CHAT_PATH, body)).status).toBe(200);
});

test("no spelling of a path reaches a daemon but the listed one, with its method and without a query", () => {
  const listed = Object.values(GATED_ROUTES).flatMap((routes) => routes.map(({ path }) => path));
  const path = fc.constantFrom(...listed, "/health", "/api/delete", "/models/load", "/slots/0", "/metrics");
  const noise = fc.oneof(
    fc.constantFrom("/", "//", "/.", "/..", "%2f", "%00", ";x", "\\", " ", "\t", "?model=x", "#x", "@h"),
    fc.string({ maxLength: 3 }),
  );
  const target = fc.oneof(
    path,
    fc.tuple(path, noise, fc.nat(20)).map(([known, more, at]) => known.slice(0, at) + more + known.slice(at)),
    fc.tuple(noise, path).map(([before, known]) => before + known),
    path.map((known) => known.toUpperCase()),
    path.map((known) => `http://127.0.0.1${known}`),
    fc.string(),
  );
  const method = fc.constantFrom("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE");
  const protocol = fc.constantFrom("openai" as const, "ollama" as const);
  fc.assert(
    fc.property(method, target, protocol, (verb, asked, api) => {
      const found = admitRequest(verb, asked, pathRulesOf({ protocol: api, engineVersion: "99" }));
      if (isRejection(found)) return void expect(found.status).toBeGreaterThanOrEqual(400);
      const [plain] = asked.split("?", 1);
      const route = GATED_ROUTES[api].find((one) => one.path === plain);
      expect(route?.kind ?? (plain === "/health" ? "health" : "not listed")).toBe(found.kind);
      if (found.kind === "json") expect(verb).toBe("POST");
      else expect(["GET", "HEAD"]).toContain(verb);
      if ("path" in found) expect(found.path).toBe(plain);
    }),
    { numRuns: 2_000 },
  );
});
