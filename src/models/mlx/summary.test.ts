import fc from "fast-check";
import { expect, test } from "vitest";
import { ggufSchema } from "../../api/fields/gguf.ts";
import { estimateClaim } from "../../engines/llamacpp/claim/claim.ts";
import { parseMlxConfig, parseSafetensorsIndex } from "./config.ts";
import { summarizeMlx } from "./summary.ts";

const GIB = 1 << 30;
const summaryOf = (config: object, weightsBytes = 4 * GIB) => {
  const parsed = parseMlxConfig(JSON.stringify(config));
  if (parsed === undefined) throw new Error("not read");
  return summarizeMlx(parsed, weightsBytes);
};

const llama = {
  model_type: "llama",
  num_hidden_layers: 32,
  hidden_size: 4096,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  intermediate_size: 14_336,
  vocab_size: 128_256,
  max_position_embeddings: 131_072,
  quantization: { group_size: 64, bits: 4 },
};

test("the cache is that of the same model as GGUF: Llama-3.1-8B with 131,072 tokens takes 16 GiB", () => {
  const summary = summaryOf(llama);
  expect(summary).toMatchObject({ architecture: "llama", quantization: "4-bit", keyLength: 128 });
  const claim = estimateClaim(summary, { contextSize: 131_072, promptCacheMiB: 0 });
  expect(claim.kvBytes).toBe(16 * GIB);
  expect(claim.weightsBytes).toBe(4 * GIB);
});

test("windowed layers are recognized by name, in the language part of a vision model", () => {
  const layer_types = Array.from({ length: 12 }, (_, layer) =>
    layer % 6 === 5 ? "full_attention" : "sliding_attention",
  );
  const inner = {
    ...llama,
    model_type: "gemma3_text",
    num_hidden_layers: 12,
    sliding_window: 1024,
    layer_types,
  };
  const summary = summaryOf({ model_type: "gemma3", text_config: inner });
  expect(summary).toMatchObject({
    architecture: "gemma3_text",
    slidingWindow: 1024,
    sizing: { layerKinds: "wwwwwawwwwwa" },
  });
  const cells = 10 * 1536 + 2 * 65_536;
  expect(estimateClaim(summary, { contextSize: 65_536 }).kvBytes).toBe(cells * 8 * 128 * 2 * 2);
});

test("latent attention caches one compressed vector per token", () => {
  const summary = summaryOf({
    ...llama,
    model_type: "deepseek_v3",
    n_routed_experts: 256,
    num_experts_per_tok: 8,
    moe_intermediate_size: 2048,
    n_shared_experts: 1,
    first_k_dense_replace: 3,
    kv_lora_rank: 512,
    q_lora_rank: 1536,
    qk_rope_head_dim: 64,
    qk_nope_head_dim: 128,
    v_head_dim: 128,
  });
  expect(estimateClaim(summary, { contextSize: 4096 }).kvBytes).toBe(32 * 4096 * 576 * 2);
  expect(summary.sizing).toMatchObject({ expertsUsed: 8, sharedExpertWidth: 2048, denseLayers: 3 });
});

test("linear layers cost a state per slot", () => {
  const summary = summaryOf({
    ...llama,
    full_attention_interval: 4,
    linear_num_value_heads: 32,
    linear_num_key_heads: 16,
    linear_key_head_dim: 128,
    linear_value_head_dim: 128,
  });
  expect(summary.sizing?.layerKinds).toBe("rrra".repeat(8));
  const state = 3 * (4096 + 2 * 16 * 128) + 4096 * 128;
  expect(estimateClaim(summary, { contextSize: 8192, parallelSlots: 2 }).kvBytes).toBe(
    8 * 8192 * 8 * 128 * 2 * 2 + 24 * state * 4 * 2,
  );
});

test("the index has the size of the weights, or nothing", () => {
  expect(parseSafetensorsIndex('{"metadata":{"total_size":4517000000},"weight_map":{}}')).toBe(4_517_000_000);
  for (const text of ["", "{}", '{"metadata":{"total_size":"big"}}', '{"metadata":{"total_size":-1}}', "[]"])
    expect(parseSafetensorsIndex(text)).toBe(undefined);
});

test("whatever a config says, its facts fit into status and its claim is known or refused", () => {
  const value = fc.oneof(fc.integer(), fc.double(), fc.string(), fc.constant(null), fc.maxSafeNat());
  const config = fc.record(Object.fromEntries(Object.keys(llama).map((key) => [key, value])));
  fc.assert(
    fc.property(config, (one) => {
      const summary = summaryOf(one);
      expect(ggufSchema.safeParse(summary).success).toBe(true);
      try {
        expect(Number.isSafeInteger(estimateClaim(summary, {}).claimBytes)).toBe(true);
      } catch (error) {
        expect(error).toMatchObject({ code: "ClaimUnknown" });
      }
    }),
  );
  expect(parseMlxConfig("not json")).toBe(undefined);
  expect(parseMlxConfig("[1]")).toBe(undefined);
});
