import { expect, test } from "vitest";
import { deploymentName } from "./deployment.ts";
import { parseSource } from "./source/parse.ts";

test.each([
  ["hf://ggml-org/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf", "qwen3-0-6b-q8-0"],
  ["hf://mlx-community/Qwen3-4B-4bit", "qwen3-4b-4bit"],
  ["ollama://library/llama3.2:1b", "llama3-2-1b"],
  ["oci://ghcr.io/org/tiny:v1", "tiny-v1"],
  ["oci://ghcr.io/org/tiny", "tiny"],
  ["https://example.org/models/7B-chat.gguf", "b-chat"],
  ["/models/123.gguf", "model"],
  [`hf://a/${"x".repeat(90)}`, "x".repeat(50)],
])("%s is called %s", (source, name) => {
  expect(deploymentName(parseSource(source))).toBe(name);
});
