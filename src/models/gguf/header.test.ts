import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import {
  type GgufWriteInput,
  type GgufWriteValue,
  renderGgufHeader,
} from "../../../local/demo/gguf-writer.ts";
import { MetalbridgeError } from "../../api/errors.ts";
import { GGUF_LIMITS } from "./fields.ts";
import { createGgufReader } from "./header.ts";
import { summarizeGguf } from "./summary.ts";
import { fileTypeName } from "./tables.ts";
import type { GgufHeader } from "./types.ts";

const text = (value: string): GgufWriteValue => ({ type: "string", value });
const u32 = (value: number): GgufWriteValue => ({ type: "u32", value });

const llama: Record<string, GgufWriteValue> = {
  "general.architecture": text("llama"),
  "general.name": text("Test\u0007 Model"),
  "general.license": text("apache-2.0"),
  "general.file_type": u32(15),
  "llama.context_length": u32(131_072),
  "llama.embedding_length": u32(4096),
  "llama.block_count": u32(32),
  "llama.feed_forward_length": u32(14_336),
  "llama.attention.head_count": u32(32),
  "llama.attention.head_count_kv": u32(8),
  "tokenizer.ggml.model": text("llama"),
  "tokenizer.ggml.tokens": { type: "strings", value: ["a", "b", "ccc"] },
};
const tensors: GgufWriteInput["tensors"] = [
  { name: "token_embd.weight", dimensions: [4096, 3], ggmlType: 12, sizeBytes: 3 * 16 * 144 },
  { name: "output_norm.weight", dimensions: [4096], ggmlType: 0, sizeBytes: 16_384 },
];

function render(metadata: Record<string, GgufWriteValue>): Uint8Array {
  return renderGgufHeader({ metadata: new Map(Object.entries(metadata)), tensors });
}

function headerOf(bytes: Uint8Array): GgufHeader {
  const parsed = createGgufReader().feed(bytes);
  if (!parsed.done) throw new Error(`needs ${parsed.needBytes} more bytes`);
  return parsed.header;
}

let bytes: Uint8Array;
beforeAll(() => {
  bytes = render(llama);
});

test.for([
  ["a chat model", {}, [], false],
  ["pooling type mean", { "llama.pooling_type": u32(1) }, [], false],
  ["pooling type rank", { "llama.pooling_type": u32(4) }, [], true],
  ["a classifier head", {}, ["cls.weight"], true],
  ["the output of a classifier head", {}, ["cls.output.weight"], true],
  ["a tensor with a similar name", {}, ["cls.weights", "blk.0.cls.weight"], false],
] as const)("%s is, or is not, recognized as a reranker", ([, more, names, ranking]) => {
  const added = names.map((name) => ({ name, dimensions: [4096], ggmlType: 0, sizeBytes: 16_384 }));
  const metadata = new Map(Object.entries({ ...llama, ...more }));
  const header = headerOf(renderGgufHeader({ metadata, tensors: [...tensors, ...added] }));
  expect(summarizeGguf(header).ranking).toBe(ranking);
});

test("describes the model", () => {
  expect(summarizeGguf(headerOf(bytes))).toEqual({
    architecture: "llama",
    modelName: "Test  Model",
    quantization: "Q4_K_M",
    ranking: false,
    contextLength: 131_072,
    embeddingSize: 4096,
    layerCount: 32,
    headCount: 32,
    headCountKV: 8,
    keyLength: 128,
    valueLength: 128,
    tensorCount: 2,
    fileVersion: 3,
    license: "apache-2.0",
    weightsBytes: 3 * 16 * 144 + 16_384,
    parameterCount: 4 * 4096,
    vocabularySize: 3,
    feedForwardLength: 14_336,
  });
  expect(headerOf(bytes)).toMatchObject({ dataOffset: bytes.length, dataBytes: 6912 + 16_384 });
});

test("chunks of any size give the same header", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 97 }), (size) => {
      const reader = createGgufReader();
      let progress = reader.feed(new Uint8Array(0));
      for (let at = 0; at < bytes.length && !progress.done; at += size)
        progress = reader.feed(bytes.subarray(at, at + size));
      expect(progress).toEqual({ done: true, header: headerOf(bytes) });
    }),
    { numRuns: 40 },
  );
});

test("says at least how many bytes are missing", () => {
  let have = 0;
  let progress = createGgufReader().feed(bytes.subarray(0, have));
  let rounds = 0;
  while (!progress.done) {
    have += progress.needBytes;
    expect(have).toBeLessThanOrEqual(bytes.length);
    progress = createGgufReader().feed(bytes.subarray(0, have));
    rounds += 1;
  }
  expect(rounds).toBeGreaterThan(5);
});

test("version 2 is read like version 3", () => {
  const old = bytes.slice();
  old[4] = 2;
  expect(headerOf(old)).toEqual({ ...headerOf(bytes), version: 2 });
});

test("head counts may be arrays, signed or not", () => {
  const perLayer: GgufWriteValue = { type: "i32s", value: [8, 0, 4, -1] };
  const summary = summarizeGguf(
    headerOf(
      render({
        ...llama,
        "llama.block_count": { type: "i32", value: 4 },
        "llama.attention.head_count_kv": perLayer,
      }),
    ),
  );
  expect(summary).toMatchObject({
    layerCount: 4,
    headCountKV: 8,
    sizing: { headCountKVByLayer: [8, 0, 4, 0] },
  });
});

test("windowed layers follow the pattern of the file, else of the architecture, else none is assumed", () => {
  const window = {
    "general.architecture": text("gemma3"),
    "gemma3.block_count": u32(7),
    "gemma3.attention.sliding_window": u32(1024),
  };
  const layers = (more: Record<string, GgufWriteValue>) =>
    summarizeGguf(headerOf(render({ ...window, ...more }))).sizing?.layerKinds;
  expect(layers({})).toBe("wwwwwaw");
  expect(layers({ "gemma3.attention.sliding_window_pattern": u32(2) })).toBe("wawawaw");
  expect(
    layers({
      "general.architecture": text("llama"),
      "llama.attention.sliding_window": u32(4096),
      "llama.block_count": u32(2),
    }),
  ).toBe(undefined);
});

test("a regular pattern is reported by its period, for status; an irregular one is not reported", () => {
  const items = (value: readonly number[]) =>
    summarizeGguf(
      headerOf(
        render({
          "general.architecture": text("gemma3"),
          "gemma3.block_count": u32(value.length),
          "gemma3.attention.sliding_window": u32(1024),
          "gemma3.attention.sliding_window_pattern": { type: "i32s", value: [...value] },
        }),
      ),
    ).slidingWindowPattern;
  expect(items([1, 1, 0, 1, 1, 0, 1])).toBe(3);
  expect(items([0, 0, 0])).toBe(1);
  expect(items([1, 1, 1])).toBe(4);
  expect(items([0, 1, 1])).toBeUndefined();
});

test("parts of a split model tell their number and the tensors of all", () => {
  const part = render({
    ...llama,
    "split.count": u32(3),
    "split.tensors.count": { type: "i32", value: 291 },
  });
  expect(summarizeGguf(headerOf(part))).toMatchObject({ splitCount: 3, tensorCount: 291 });
});

test.each([
  ["SourceIsNotAModel", "<!DOCTYPE html><html>"],
  ["SourceIsNotAModel", "\n <html>"],
  ["SourceIsNotAModel", '{"error":"Invalid credentials"}'],
  ["SourceIsNotAModel", "version https://git-lfs.github.com/spec/v1\n"],
  ["GgufBadMagic", "PK\u0003\u0004aaaa"],
  ["GgufBadMagic", "GGML1234"],
])("%s for a file that begins with %s", (code, start) => {
  expect(codeOf(new TextEncoder().encode(start))).toBe(code);
});

test("big-endian, unknown versions and absurd numbers each have a code", () => {
  const change = (at: number, values: readonly number[]) => {
    const changed = bytes.slice();
    changed.set(values, at);
    return changed;
  };
  expect(codeOf(change(4, [0, 0, 0, 3]))).toBe("GgufBigEndian");
  expect(codeOf(change(4, [1, 0, 0, 0]))).toBe("GgufVersion");
  expect(codeOf(change(4, [0, 0, 0, 0]))).toBe("GgufVersion");
  expect(codeOf(change(8, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]))).toBe("GgufTooLarge");
  expect(codeOf(change(16, [0xff, 0xff, 0xff, 0xff]))).toBe("GgufTooLarge");
  expect(codeOf(change(24, [0xff, 0xff, 0xff, 0xff]))).toBe("GgufTooLarge");
  const typeAt = 24 + 8 + "general.architecture".length;
  expect(codeOf(change(typeAt, [77]))).toBe("GgufMalformed");
});

test("a file that ends early is cut off, an empty one is empty", () => {
  const reader = createGgufReader();
  expect(reader.cutOff().code).toBe("SourceEmpty");
  reader.feed(bytes.subarray(0, 100));
  expect(reader.cutOff()).toMatchObject({
    code: "GgufTruncated",
    message: expect.stringContaining("100 bytes"),
  });
});

test("a vocabulary of 150,000 texts passes through without being kept", () => {
  const tokens: GgufWriteValue = {
    type: "strings",
    value: Array.from({ length: 150_000 }, (_, id) => `token ${id}`),
  };
  const large = render({
    ...llama,
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.chat_template": text("x".repeat(100_000)),
  });
  const reader = createGgufReader();
  let progress = reader.feed(large.subarray(0, 1));
  for (let at = 1; at < large.length && !progress.done; at += 65_536)
    progress = reader.feed(large.subarray(at, at + 65_536));
  if (!progress.done) throw new Error("not done");
  expect(progress.header.metadata.get("tokenizer.ggml.tokens")).toEqual({ count: 150_000 });
  expect(progress.header.metadata.has("tokenizer.chat_template")).toBe(false);
});

test("a vocabulary is passed over in chunks of any size, and an absurd text in it is refused", () => {
  const tokens: GgufWriteValue = { type: "strings", value: ["a", "", "b".repeat(300), "c".repeat(20)] };
  const whole = render({ ...llama, "tokenizer.ggml.tokens": tokens });
  const expected = headerOf(whole);
  for (const size of [1, 2, 7, 8, 9, 64, 301]) {
    const reader = createGgufReader();
    let progress = reader.feed(whole.subarray(0, size));
    for (let at = size; at < whole.length && !progress.done; at += size) {
      expect(progress.needBytes).toBeLessThanOrEqual(whole.length - at);
      progress = reader.feed(whole.subarray(at, at + size));
    }
    expect(progress).toEqual({ done: true, header: expected });
  }
  const absurd = whole.slice();
  const textAt = Buffer.from(whole).indexOf("tokenizer.ggml.tokens") + "tokenizer.ggml.tokens".length + 16;
  absurd.set([0, 0, 0, 0, 1, 0, 0, 0], textAt);
  expect(codeOf(absurd)).toBe("GgufTooLarge");
});

test("any bytes end in a header, a wish for more, or a refusal with a code", () => {
  const mutated = fc
    .array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(255)), { maxLength: 12 })
    .map((changes) => {
      const copy = bytes.slice();
      for (const [at, value] of changes) copy[at] = value;
      return copy;
    });
  const framed = fc
    .uint8Array({ maxLength: 400 })
    .map((tail) => Uint8Array.from([...bytes.subarray(0, 24), ...tail]));
  fc.assert(
    fc.property(fc.oneof(mutated, framed, fc.uint8Array({ maxLength: 200 })), (input) => {
      try {
        const parsed = createGgufReader().feed(input);
        if (parsed.done) JSON.stringify(summarizeGguf(parsed.header));
        else expect(parsed.needBytes).toBeGreaterThan(0);
      } catch (error) {
        expect(error).toBeInstanceOf(MetalbridgeError);
      }
    }),
    { numRuns: 3000 },
  );
});

const u32le = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64le = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const start = (tensorCount: number, entries: number) =>
  Buffer.concat([Buffer.from("GGUF"), u32le(3), u64le(tensorCount), u64le(entries)]);
const [STRING, ARRAY] = [8, 9];
/** An entry with the key `k`, up to its value. */
const entry = (type: number) => Buffer.concat([start(0, 1), u64le(1), Buffer.from("k"), u32le(type)]);
const tensor = Buffer.concat([start(1, 0), u64le(1), Buffer.from("t")]);

test.each<[string, number, (value: number) => readonly Uint8Array[]]>([
  ["tensors", GGUF_LIMITS.tensors, (count) => [start(count, 0)]],
  ["metadata entries", GGUF_LIMITS.metadataEntries, (count) => [start(0, count)]],
  ["bytes of a key", GGUF_LIMITS.keyBytes, (length) => [start(0, 1), u64le(length)]],
  ["bytes of a tensor's name", GGUF_LIMITS.keyBytes, (length) => [start(1, 0), u64le(length)]],
  ["bytes of a text", GGUF_LIMITS.stringBytes, (length) => [entry(STRING), u64le(length)]],
  ["items of an array", GGUF_LIMITS.arrayItems, (count) => [entry(ARRAY), u32le(0), u64le(count)]],
  ["texts of an array", GGUF_LIMITS.arrayItems, (count) => [entry(ARRAY), u32le(STRING), u64le(count)]],
  [
    "bytes of a text in an array",
    GGUF_LIMITS.stringBytes,
    (length) => [entry(ARRAY), u32le(STRING), u64le(1), u64le(length)],
  ],
  ["arrays in an array", GGUF_LIMITS.keptItems, (count) => [entry(ARRAY), u32le(ARRAY), u64le(count)]],
  [
    "arrays within each other",
    GGUF_LIMITS.arrayDepth,
    (depth) => [entry(ARRAY), ...Array.from({ length: depth - 1 }, () => [u32le(ARRAY), u64le(1)]).flat()],
  ],
  ["dimensions of a tensor", GGUF_LIMITS.dimensions, (rank) => [tensor, u32le(rank)]],
  ["elements of a dimension", Number.MAX_SAFE_INTEGER, (size) => [tensor, u32le(1), u64le(size)]],
])("more %s than %i are refused before memory is allocated, and no fewer", (_, limit, parts) => {
  for (const value of [limit - 1, limit, limit + 1])
    expect([value, codeOf(Buffer.concat(parts(value)))]).toEqual([
      value,
      value > limit ? "GgufTooLarge" : "needs more",
    ]);
});

test("a text up to 1 KiB is kept, and of a longer one nothing", () => {
  const unit = fc.constantFrom("x", "é", "€", "😀");
  fc.assert(
    fc.property(unit, fc.integer({ min: 1_015, max: 1_035 }), (character, bytes) => {
      const value = character.repeat(bytes / Buffer.byteLength(character));
      const kept = headerOf(render({ "general.description": text(value) })).metadata;
      expect(kept.get("general.description")).toBe(Buffer.byteLength(value) > 1_024 ? undefined : value);
    }),
  );
});

test("file types have the names of the engine", () => {
  expect([0, 15, 21, 32, 38, 39, 1039, 777].map(fileTypeName)).toEqual([
    "F32",
    "Q4_K_M",
    "Q2_K_S",
    "BF16",
    "MXFP4_MOE",
    "NVFP4",
    "Q4_K_M",
    "type 777",
  ]);
});

function codeOf(input: Uint8Array): string {
  try {
    return createGgufReader().feed(input).done ? "done" : "needs more";
  } catch (error) {
    if (error instanceof MetalbridgeError) return error.code;
    throw error;
  }
}
