import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { runLlamaServer } from "../../test/fixtures/run-llama-server.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { writeTinyModel } from "./tiny-model.ts";

const program = findLlamaServer();

async function digestOf(path: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(path))
    .digest("hex");
}

test("the same seed gives the same bytes, another seed others", async () => {
  await using folder = await temporaryFolder();
  const [first, second, other] = ["a", "b", "c"].map((name) => join(folder.path, name)) as [
    string,
    string,
    string,
  ];
  await writeTinyModel(first);
  await writeTinyModel(second);
  await writeTinyModel(other, { seed: 2 });
  expect(await digestOf(second)).toBe(await digestOf(first));
  expect(await digestOf(other)).not.toBe(await digestOf(first));
  expect((await stat(first)).size).toBeLessThan(600_000);
});

test("padding and sparse layers take no space on disk", async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, "padded.gguf");
  const { sizeBytes } = await writeTinyModel(path, {
    sparse: true,
    layers: 4,
    embeddingSize: 1024,
    heads: 16,
    padToBytes: 1 << 30,
  });
  const { size, blocks } = await stat(path);
  expect(size).toBe(sizeBytes);
  expect(size).toBe(1 << 30);
  expect(blocks * 512).toBeLessThan(16 << 20);
});

describe.skipIf(program === undefined)("with the real llama-server", () => {
  async function ask(url: string, path: string, body: object): Promise<Response> {
    return fetch(`${url}${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(110_000),
    });
  }
  const completion = z.object({
    choices: z.tuple([z.object({ message: z.object({ content: z.string() }) })]),
  });
  const answerOf = (body: unknown) => completion.parse(body).choices[0].message.content;
  const messages = [{ role: "user", content: "What is a bridge?" }];

  test("answers in words, whole and streamed", async () => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, "tiny.gguf");
    await writeTinyModel(path);
    await using server = await runLlamaServer(program ?? "", ["-m", path, "-c", "2048", "-np", "1"]);
    const whole = await ask(server.url, "/v1/chat/completions", { messages, max_tokens: 64, seed: 1 });
    const response = answerOf(await whole.json());
    expect(response).toMatch(/^\s*[A-Z][a-z]+( [a-z]+)+\./);
    const streamed = await ask(server.url, "/v1/chat/completions", { messages, max_tokens: 8, stream: true });
    expect(await streamed.text()).toMatch(/data: \[DONE\]\s*$/);
  });

  test("an endless model generates up to the limit", async () => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, "endless.gguf");
    await writeTinyModel(path, { endless: true });
    await using server = await runLlamaServer(program ?? "", ["-m", path, "-c", "2048", "-np", "1"]);
    const response = await ask(server.url, "/v1/chat/completions", { messages, max_tokens: 1000 });
    expect(await response.json()).toMatchObject({ usage: { completion_tokens: 1000 } });
  });

  test("embeds", async () => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, "embedding.gguf");
    await writeTinyModel(path, { embedding: true });
    await using server = await runLlamaServer(program ?? "", [
      "-m",
      path,
      "-c",
      "512",
      "-np",
      "1",
      "--embeddings",
    ]);
    const response = await ask(server.url, "/v1/embeddings", { input: "a quiet river" });
    expect(await response.json()).toMatchObject({ data: [{ embedding: { length: 64 } }] });
  });
});
