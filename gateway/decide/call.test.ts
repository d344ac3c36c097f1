import { expect, test } from "vitest";
import { type CheckedRequest, promptPrefix, readCall, readWaitSeconds } from "./call.ts";

const checked = (given: Partial<CheckedRequest> = {}): CheckedRequest => ({
  method: "POST",
  path: "/v1/chat/completions",
  model: "chat",
  isBodyInvalid: false,
  contentEncoding: undefined,
  bodyStart: '{"model":"chat"}',
  ...given,
});

const refusalOf = (given: Partial<CheckedRequest>) => {
  const call = readCall(checked(given));
  return "refusal" in call ? { code: call.refusal.code, dialect: call.dialect } : call;
};

test("the model comes from the body, and the query is not part of the path", () => {
  expect(readCall(checked({ path: "/v1/chat/completions?x=1", model: "apps/chat" }))).toEqual({
    dialect: "openai",
    path: "/v1/chat/completions",
    target: { by: "model", model: "apps/chat" },
  });
});

test("the base URL of a service names it, whatever the body says", () => {
  const path = "/s/apps/chat/v1/messages";
  expect(readCall(checked({ path, model: undefined, isBodyInvalid: true }))).toEqual({
    dialect: "anthropic",
    path: "/v1/messages",
    target: { by: "service", namespace: "apps", name: "chat" },
  });
});

test.each([
  [{ isBodyInvalid: true }, "invalid_json"],
  [{ model: undefined }, "model_required"],
  [{ model: "" }, "model_required"],
  [{ model: "a\nb" }, "invalid_model"],
  [{ model: "../x" }, "invalid_model"],
  [{ model: "x".repeat(254) }, "invalid_model"],
  [{ path: "/" }, "unknown_path"],
  [{ path: "/v1/models/../chat/completions" }, "bad_path"],
  [{ path: "/v1//chat/completions" }, "bad_path"],
  [{ path: "/v1/chat%2fcompletions" }, "bad_path"],
  [{ path: "/s/apps/chat/slots" }, "unknown_path"],
  [{ path: "/s/Apps/chat/v1/chat/completions" }, "unknown_path"],
  [{ path: "/api/pull" }, "unknown_path"],
  [{ method: "GET" }, "method_not_allowed"],
  [{ contentEncoding: "gzip", isBodyInvalid: true }, "unsupported_encoding"],
  [{ contentEncoding: "identity, zstd", path: "/s/apps/chat/v1/messages" }, "unsupported_encoding"],
] as const)("%j is refused with %s", (given, code) => {
  expect(refusalOf(given)).toMatchObject({ code });
});

test("the dialect of a refusal is that of the path", () => {
  expect(refusalOf({ path: "/v1/messages", model: undefined })).toMatchObject({ dialect: "anthropic" });
  expect(refusalOf({ path: "/api/chat", model: undefined })).toMatchObject({ dialect: "ollama" });
});

const NOW = Date.parse("2026-11-01T12:00:00Z");

test.each([
  [undefined, 300],
  ["30", 30],
  ["0", 0],
  ["1.5", 1.5],
  ["86400", 590],
  ["2026-11-01T12:00:20Z", 20],
  ["2026-11-01T11:00:00Z", 0],
])("x-request-deadline %s waits for %s s", (header, seconds) => {
  expect(readWaitSeconds(header, NOW)).toBe(seconds);
});

test.each(["soon", "-5 minutes", ""])("x-request-deadline %j is refused", (header) => {
  expect(readWaitSeconds(header, NOW)).toMatchObject({ code: "invalid_deadline" });
});

const conversation = (...messages: readonly object[]) =>
  JSON.stringify({ model: "chat", messages, stream: true });
const system = { role: "system", content: "You help." };
const first = { role: "user", content: 'Say "hi" and a brace: }' };

test("the prefix stays the same while a conversation grows", () => {
  const prefix = promptPrefix(conversation(system, first));
  expect(prefix).toContain("and a brace");
  const grown = conversation(
    system,
    first,
    { role: "assistant", content: "hi" },
    { role: "user", content: "x" },
  );
  expect(promptPrefix(grown)).toBe(prefix);
});

test("other first messages have another prefix", () => {
  const other = conversation(system, { role: "user", content: "Bye" });
  expect(promptPrefix(other)).not.toBe(promptPrefix(conversation(system, first)));
});

test("content of several parts ends with its message", () => {
  const parts = {
    role: "user",
    content: [
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ],
  };
  const prefix = promptPrefix(conversation(parts));
  expect(prefix).toBe(promptPrefix(conversation(parts, { role: "assistant", content: "c" })));
  expect(prefix).toContain('"b"');
});

test("a long prompt counts with its beginning, and a body without a prompt has no prefix", () => {
  expect(promptPrefix(JSON.stringify({ prompt: "x".repeat(10_000) }))).toHaveLength(1_024);
  expect(promptPrefix(JSON.stringify({ model: "chat" }))).toBeUndefined();
  expect(promptPrefix("")).toBeUndefined();
});
