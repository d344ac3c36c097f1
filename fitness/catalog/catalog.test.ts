import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { keyValueBytesPerToken } from "../scoring/claim.ts";
import { recordDiscrepancies } from "./check.ts";
import { createMatcher, createRecordOf, matchName, nearestNames, searchRecords } from "./match.ts";
import { bytesPerToken, ladderOf, quantizationOf } from "./quantizations.ts";
import { billions, readCatalog } from "./record.ts";
import { parametersOf, summaryOf } from "./shape.ts";

const text = readFileSync("catalog/models.jsonl", "utf8");
const { records, refused } = readCatalog(text);
const find = (name: string) => {
  const record = records.find((one) => one.name === name);
  if (record === undefined) throw new Error(`no record ${name}`);
  return record;
};

test("the catalog has at least 150 records, each of them usable, unique and with its source", () => {
  expect(refused).toEqual([]);
  expect(records.length).toBeGreaterThanOrEqual(150);
  expect(text.trim().split("\n")).toHaveLength(records.length);
  for (const { name, source, provider } of records) {
    expect(source, name).toMatch(/config\.json/);
    expect(name.startsWith(`${provider}/`), name).toBe(true);
  }
});

test("the shapes of every record add up to its parameters within 10 %, and to its active parameters within 25 %", () => {
  for (const record of records) {
    const parts = parametersOf(record);
    if (parts === undefined) throw new Error(`${record.name} has no shapes`);
    const total = parts.always + parts.experts + parts.embedding;
    expect(Math.abs(total / (billions(record) * 1e9) - 1), `${record.name}: ${total}`).toBeLessThan(0.1);
    expect(record.num_experts !== undefined, record.name).toBe(record.is_moe);
    if (record.active_parameters === undefined) continue;
    const active = parts.always + parts.expertsUsed;
    const published = record.active_parameters;
    // Publishers differ on whether they count the input embedding, and they round.
    expect(active, record.name).toBeLessThan(published * 1.25);
    expect(active + parts.embedding, record.name).toBeGreaterThan(published * 0.8);
  }
});

test("no record contradicts itself, and one that does is named with the reason", () => {
  for (const record of records) expect(recordDiscrepancies(record), record.name).toEqual([]);
  const record = find("meta-llama/Llama-3.1-8B-Instruct");
  const bad = {
    ...record,
    num_hidden_layers: 64,
    quantization: "Q9",
    release_date: "soon",
    files_gb: { Q8_0: 3 },
  };
  expect(recordDiscrepancies(bad)).toEqual([
    "its shapes add up to 15.01B parameters, not 8.03B",
    "quantization Q9 is not known",
    "release_date soon is no day",
    "files_gb.Q8_0 is 3, its parameters make 8.53",
  ]);
  const file = { ...summaryOf(record, 1), layerCount: 31, parameterCount: 7e9 };
  expect(recordDiscrepancies(record, file)).toEqual([
    "num_hidden_layers is 32, in the file 31",
    "parameters are 8.03B, in the file 7.00B",
  ]);
});

test.each([
  ["meta-llama/Llama-3.1-8B-Instruct", 131_072],
  ["Qwen/Qwen2.5-7B-Instruct", 57_344],
  ["Qwen/Qwen3-30B-A3B", 98_304],
  ["deepseek-ai/DeepSeek-V3", 61 * 576 * 2],
  ["Qwen/Qwen3.5-27B", 16 * 2 * 4 * 256 * 2],
])("one more token of %s takes %i bytes of KV cache", (name, bytes) => {
  expect(keyValueBytesPerToken(find(name))).toBe(bytes);
});

test.each([
  ["Qwen2.5-7B", "Qwen/Qwen2.5-7B-Instruct"],
  ["qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"],
  ["bartowski/Qwen2.5-Coder-7B-Instruct-GGUF", "Qwen/Qwen2.5-Coder-7B-Instruct"],
  ["unsloth/Qwen3.5-9B-GGUF", "Qwen/Qwen3.5-9B"],
  ["hf://bartowski/Qwen_Qwen3-8B-GGUF/Qwen_Qwen3-8B-Q4_K_M.gguf", "Qwen/Qwen3-8B"],
  ["mlx-community/gemma-3-27b-it-4bit", "google/gemma-3-27b-it"],
  ["https://huggingface.co/ggml-org/Qwen3-0.6B-GGUF/resolve/main/x.gguf", "Qwen/Qwen3-0.6B"],
  ["Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "meta-llama/Llama-3.1-8B-Instruct"],
])("the name %s matches %s", (name, expected) => {
  expect(matchName(records, name)).toMatchObject({ at: "one", record: { name: expected } });
});

test("a family name matches its sizes, and never the models for another purpose", () => {
  const match = matchName(records, "Qwen2.5");
  if (match.at !== "several") throw new Error(match.at);
  const names = match.records.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-72B-Instruct"]));
  expect(names.filter((name) => /Coder|Math|VL|R1/.test(name))).toEqual([]);
  expect(searchRecords(records, "qwen2.5 coder")).toHaveLength(6);
});

test.each(["", "   ", "nonsense", ".*", "(a+)+$", "x".repeat(1 << 20), "[", "__proto__"])(
  "bad name %# matches no model, and is answered immediately",
  (name) => {
    const before = performance.now();
    expect(matchName(records, name).at).toBe("none");
    expect(performance.now() - before).toBeLessThan(10_000);
  },
);

test("an unmatched name is compared with the other names only when the nearest names are requested", () => {
  let reads = 0;
  const counted = records.map((record) => ({
    ...record,
    get name() {
      reads += 1;
      return record.name;
    },
  }));
  const match = createMatcher(counted);
  reads = 0;
  expect(match(Array(32).fill("qwen4").join("-"))).toEqual({ at: "none" });
  expect(match("Qwen2.5-9000B")).toEqual({ at: "none" });
  expect(reads).toBe(0);
  expect(nearestNames(counted, "Qwen2.5-9000B")).toHaveLength(5);
  expect(nearestNames(records, "nonsense")).toEqual([]);
});

test("a name with more words than any model has matches none", () => {
  expect(matchName(records, `Qwen2.5${"-7B".repeat(31)}`).at).toBe("several");
  expect(matchName(records, `Qwen2.5${"-7B".repeat(32)}`)).toEqual({ at: "none" });
});

test("the record of a source is looked up once, and cached for as many sources as a fleet has", () => {
  const asked: string[] = [];
  const recordOf = createRecordOf((name) => {
    asked.push(name);
    return { at: "none" };
  });
  for (let count = 0; count < 3 * 4096; count += 1) recordOf(`model ${count % 4096}`);
  expect(asked).toHaveLength(4096);
  recordOf("one more");
  recordOf("model 0");
  expect(asked.slice(4096)).toEqual(["one more", "model 0"]);
  const long = "x".repeat(513);
  recordOf(long);
  recordOf(long);
  expect(asked.slice(4098)).toEqual([long, long]);
});

test("llmfit's records are read from an array with its own fields", () => {
  const llmfit = {
    name: "Qwen/Qwen2.5-7B-Instruct",
    provider: "Alibaba",
    parameter_count: "7.6B",
    parameters_raw: 7_615_616_512,
    min_ram_gb: 4.3,
    recommended_ram_gb: 7.1,
    min_vram_gb: 3.9,
    quantization: "Q4_K_M",
    context_length: 32_768,
    use_case: "Instruction following, chat",
    is_moe: false,
    num_experts: null,
    architecture: null,
    hf_downloads: 1,
    languages: ["en"],
  };
  const read = readCatalog(JSON.stringify([llmfit]));
  expect(read).toMatchObject({ refused: [], records: [{ min_ram_gb: 4.3, num_experts: undefined }] });
  expect(readCatalog(text, JSON.stringify([llmfit])).records).toHaveLength(records.length);
});

const good = {
  name: "a/b",
  provider: "a",
  parameter_count: "7B",
  context_length: 1,
  use_case: "",
  quantization: "Q8_0",
};
test.each<[string, unknown, string]>([
  ["no name", { ...good, name: undefined }, "name"],
  ["a name that is a number", { ...good, name: 7 }, "name"],
  ["parameters in words", { ...good, parameter_count: "seven" }, "parameter_count"],
  ["no parameters", { ...good, parameter_count: "0B" }, "parameter_count"],
  ["a negative context", { ...good, context_length: -1 }, "context_length"],
  ["layers as text", { ...good, num_hidden_layers: "32" }, "num_hidden_layers"],
  ["half a layer", { ...good, num_hidden_layers: 0.5 }, "num_hidden_layers"],
  ["more active than all", { ...good, active_parameters: 8e9 }, "active_parameters"],
  ["more experts in use than there are", { ...good, num_experts: 4, active_experts: 8 }, "active_experts"],
  ["a file of no size", { ...good, files_gb: { Q8_0: 0 } }, "files_gb.Q8_0"],
  ["null", null, "not a JSON object"],
  ["a list", [], "not a JSON object"],
])("a record with %s is left out with its reason, and the others are kept", (_, record, why) => {
  const read = readCatalog(JSON.stringify([record, { ...good, name: "a/c" }]));
  expect(read.records.map(({ name }) => name)).toEqual(["a/c"]);
  expect(read.refused[0]?.why).toContain(why);
});

test("a file that is not JSON is refused line by line", () => {
  expect(readCatalog("not json\n{}\n")).toMatchObject({ records: [], refused: [{}, {}] });
  expect(readCatalog(`${JSON.stringify(good)}\n${JSON.stringify(good)}`).refused[0]?.why).toBe(
    "name: is a duplicate",
  );
});

test("generating a token reads the active experts and not the input embedding", () => {
  const q4 = quantizationOf("Q4_K_M");
  const mxfp4 = quantizationOf("mxfp4");
  if (q4 === undefined || mxfp4 === undefined) throw new Error("unknown");
  const llama = find("meta-llama/Llama-3.1-8B-Instruct");
  expect(bytesPerToken(llama, q4)).toBeCloseTo(4.92e9 * (1 - (128_256 * 4096) / 8_030_000_000), -7);
  expect(bytesPerToken(find("Qwen/Qwen3-30B-A3B"), q4) / 1e9).toBeCloseTo(1.85, 1);
  // Experts have 4.25 bits, other weights 8.5.
  expect(bytesPerToken(find("openai/gpt-oss-20b"), mxfp4) / 1e9).toBeCloseTo(2.56, 1);
  expect(ladderOf(find("openai/gpt-oss-20b"), "gguf").map(({ name }) => name)).toEqual(["MXFP4"]);
});
