/** Which routes clients reach, by the engine's API and version. */
import { expect, test } from "vitest";
import { GATED_ROUTES } from "../../src/engines/gated-routes.ts";
import { CHAT_PATH, post, startPair } from "./fixtures/route.ts";
import { admit, passagesOf } from "./paths.ts";

const outcome = (method: string, path: string, protocol: "openai" | "ollama", engineVersion?: string) => {
  const found = admit(method, path, passagesOf({ protocol, ...(engineVersion && { engineVersion }) }));
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
    for (const path of ["/v1/files", "/api/version", "/v1/messages/count_tokens", "/api/experimental/x"])
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
