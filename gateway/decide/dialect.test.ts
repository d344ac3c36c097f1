import { expect, test } from "vitest";
import { renderRefusal } from "./dialect.ts";

const full = { code: "queue_full", message: "The queue is full.", retryAfterSeconds: 2.4 } as const;

test("each dialect has its own shape of an error", () => {
  const bodyIn = (dialect: "openai" | "anthropic" | "ollama") =>
    JSON.parse(renderRefusal(full, dialect, "req-1").body);
  expect(bodyIn("openai")).toEqual({
    error: { message: "The queue is full.", type: "rate_limit_error", param: null, code: "queue_full" },
  });
  expect(bodyIn("anthropic")).toEqual({
    type: "error",
    error: { type: "rate_limit_error", message: "The queue is full." },
    request_id: "req-1",
  });
  expect(bodyIn("ollama")).toEqual({ error: "The queue is full." });
});

test("a client learns when to retry, or not to", () => {
  expect(renderRefusal(full, "openai", "")).toMatchObject({
    status: 429,
    headers: { "retry-after": "3", "x-should-retry": "true" },
  });
  const unknown = renderRefusal({ code: "invalid_api_key", message: "Unknown key." }, "openai", "");
  expect(unknown).toMatchObject({
    status: 401,
    headers: { "x-should-retry": "false", "www-authenticate": "Bearer" },
  });
  expect(unknown.headers).not.toHaveProperty("retry-after");
});
