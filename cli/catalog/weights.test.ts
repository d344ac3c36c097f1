import { expect, test } from "vitest";
import { readCatalogFiles } from "./read.ts";
import { weightsOf } from "./weights.ts";

const catalog = await readCatalogFiles();

test.for([
  ["Qwen/Qwen3-8B", {}, "hf://Qwen/Qwen3-8B-GGUF", "Q4_K_M"],
  ["qwen/qwen3-8b", {}, "hf://Qwen/Qwen3-8B-GGUF", "Q4_K_M"],
  ["qwen3:8b", {}, "hf://Qwen/Qwen3-8B-GGUF", "Q4_K_M"],
  ["qwen3-8b", { quantization: "Q8_0" }, "hf://Qwen/Qwen3-8B-GGUF", "Q8_0"],
  ["llama3.1:8b", {}, "hf://bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "Q4_K_M"],
  ["gemma3:4b", {}, "hf://ggml-org/gemma-3-4b-it-GGUF", "Q4_K_M"],
  ["gpt-oss:20b", {}, "hf://ggml-org/gpt-oss-20b-GGUF", "MXFP4"],
  ["qwen3:8b", { runtime: "ollama" }, "ollama://qwen3:8b", undefined],
  ["Qwen/Qwen3-8B", { runtime: "vllm" }, "hf://Qwen/Qwen3-8B", undefined],
  ["Qwen/Qwen2.5-VL-7B-Instruct", {}, "hf://mlx-community/Qwen2.5-VL-7B-Instruct-4bit", undefined],
  // What is no record is taken as it stands: another owner's model of that name is another model.
  ["someone/Qwen3-8B", {}, "hf://someone/Qwen3-8B", undefined],
  ["org/repo/file.gguf", {}, "hf://org/repo/file.gguf", undefined],
  ["hf://Qwen/Qwen3-8B", {}, "hf://Qwen/Qwen3-8B", undefined],
  ["hf.co/org/repo", {}, "hf://org/repo", undefined],
  ["hf.co/org/repo:Q4_K_M", {}, "hf://org/repo", "Q4_K_M"],
  ["huggingface.co/org/repo/m.gguf", {}, "hf://org/repo/m.gguf", undefined],
  ["org/repo:UD-Q4_K_XL", {}, "hf://org/repo", "UD-Q4_K_XL"],
  ["hf://org/repo:Q4_0", {}, "hf://org/repo", "Q4_0"],
  ["org/repo:Q4_0", { quantization: "Q8_0" }, "hf://org/repo", "Q8_0"],
  ["Qwen/Qwen3-8B:Q8_0", {}, "hf://Qwen/Qwen3-8B-GGUF", "Q8_0"],
  ["hf.co/Qwen/Qwen3-8B", {}, "hf://Qwen/Qwen3-8B-GGUF", "Q4_K_M"],
  ["hf.co/org", {}, "hf://hf.co/org", undefined],
  ["/models/a.gguf", {}, "/models/a.gguf", undefined],
  ["https://example.org/a.gguf", {}, "https://example.org/a.gguf", undefined],
] as const)("%s with %j is %s", ([text, wish, source, quantization]) => {
  const found = weightsOf(catalog, text, wish);
  expect([found.source, found.quantization]).toEqual([source, quantization]);
});

test("an embedding model of the catalog is deployed as one", () => {
  expect(weightsOf(catalog, "Qwen/Qwen3-Embedding-0.6B", {}).mode).toBe("embedding");
  expect(weightsOf(catalog, "Qwen/Qwen3-8B", {}).mode).toBeUndefined();
});

test.for([
  ["qwen3", "CatalogModelUnknown", /can mean several models/, /name one of: .*Qwen\/Qwen3-8B/],
  ["qwen4:8b", "CatalogModelUnknown", /has no model qwen4:8b/, /did you mean .*Qwen\/Qwen3-8B/],
  ["nonsense", "CatalogModelUnknown", /has no model nonsense/, /give a source: hf:\/\//],
  ["bge-m3", "CatalogModelWithoutFiles", /names no GGUF or MLX files of BAAI\/bge-m3/, /./],
  ["./a.gguf", "SourceInvalid", /is a relative path/, /absolute path/],
  ["models/a.gguf", "SourceInvalid", /is a relative path/, /absolute path/],
  ["a.gguf", "SourceInvalid", /is a relative path/, /absolute path/],
] as const)("%s is refused with %s and a way on", ([text, code, message, summary]) => {
  expect(() => weightsOf(catalog, text, {})).toThrow(
    expect.objectContaining({
      code,
      message: expect.stringMatching(message),
      remedy: expect.objectContaining({ summary: expect.stringMatching(summary) }),
    }),
  );
});

test("every model that the catalog lists resolves by its name, or says that it has no files", () => {
  for (const { name, gguf_sources, mlx_sources } of catalog.records) {
    const hasFiles = gguf_sources.length + mlx_sources.length > 0;
    if (hasFiles) expect(weightsOf(catalog, name, {}).model).toBe(name);
    else expect(() => weightsOf(catalog, name, {})).toThrow(/names no GGUF or MLX files/);
  }
});
