import { expect, test } from "vitest";
import { type CheckedRequest, readCall } from "./call.ts";

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
