import { truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { createInspector } from "./inspect.ts";

const config = {
  model_type: "qwen3",
  num_hidden_layers: 28,
  hidden_size: 2048,
  num_attention_heads: 16,
  num_key_value_heads: 8,
  head_dim: 128,
  intermediate_size: 6144,
  vocab_size: 151_936,
  quantization: { bits: 4 },
};

async function inspect(folder: string, contents: Readonly<Record<string, string | number>>) {
  const files = [];
  for (const [name, content] of Object.entries(contents)) {
    const path = join(folder, name);
    await writeFile(path, typeof content === "string" ? content : "");
    if (typeof content === "number") await truncate(path, content);
    files.push({ name, path, sizeBytes: typeof content === "string" ? content.length : content });
  }
  const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  return createInspector()({ path: folder, sizeBytes, files });
}

const shards = { "model-1.safetensors": 3_000_000, "model-2.safetensors": 1_000_000 };
const index = (bytes: number) => JSON.stringify({ metadata: { total_size: bytes }, weight_map: {} });

test("a folder of safetensors is described by its config.json, and its weights are all shards", async () => {
  await using folder = await temporaryFolder();
  const contents = {
    "config.json": JSON.stringify(config),
    ...shards,
    "model.safetensors.index.json": index(3_999_000),
  };
  const { gguf, quantization } = await inspect(folder.path, contents);
  expect(quantization, "MLX states no method").toBe(undefined);
  expect(gguf).toMatchObject({
    architecture: "qwen3",
    headCountKV: 8,
    quantization: "4-bit",
    weightsBytes: 4_000_000,
  });
  const gptq = { ...config, quantization: undefined, quantization_config: { quant_method: "gptq", bits: 4 } };
  const facts = await inspect(folder.path, { ...contents, "config.json": JSON.stringify(gptq) });
  expect(facts).toMatchObject({ quantization: "gptq-4bit", gguf: { weightsBytes: 4_000_000 } });
});

test("shards that are smaller than their index states are reported as truncated", async () => {
  await using folder = await temporaryFolder();
  const contents = {
    "config.json": JSON.stringify(config),
    ...shards,
    "model.safetensors.index.json": index(9_000_000),
  };
  const { gguf, problem } = await inspect(folder.path, contents);
  expect(gguf).toBe(undefined);
  expect(problem).toMatchObject({ code: "GgufTruncated", message: expect.stringContaining("9000000") });
});

test("no facts are known without a readable config.json", async () => {
  await using folder = await temporaryFolder();
  expect((await inspect(folder.path, { "config.json": "{", ...shards })).gguf).toBe(undefined);
  expect((await inspect(folder.path, shards)).gguf).toBe(undefined);
});

test("a config.json is read up to a size of 32 MiB", async () => {
  const LIMIT = 32 << 20;
  await using folder = await temporaryFolder();
  for (const bytes of [1_000, LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT]) {
    const text = JSON.stringify(config).padEnd(bytes);
    const { gguf } = await inspect(folder.path, { "config.json": text, ...shards });
    expect(gguf !== undefined).toBe(bytes <= LIMIT);
  }
});
