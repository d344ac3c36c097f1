import { expect, test } from "vitest";
import { promptPrefix } from "./call.ts";

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
