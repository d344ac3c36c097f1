import { expect, test } from "vitest";
import { safetensorsQuantization } from "./quantization.ts";

const group = (num_bits: number, type: string) => ({ weights: { num_bits, type, strategy: "channel" } });

test.each<[string | undefined, object | string]>([
  ["awq-4bit", { quant_method: "awq", bits: 4, group_size: 128, version: "gemm" }],
  ["gptq-4bit", { quant_method: "gptq", bits: 4, desc_act: false }],
  ["gptq-8bit", { quant_method: "GPTQ", bits: 8 }],
  ["fp8", { quant_method: "fp8", activation_scheme: "dynamic", weight_block_size: [128, 128] }],
  ["fbgemm_fp8", { quant_method: "fbgemm_fp8", activation_scale_ub: 1200 }],
  ["mxfp4", { quant_method: "mxfp4" }],
  ["fp8", { quant_method: "compressed-tensors", config_groups: { group_0: group(8, "float") } }],
  ["int8", { quant_method: "compressed-tensors", config_groups: { a: group(4, "int"), b: group(8, "int") } }],
  ["compressed-tensors", { quant_method: "compressed-tensors", config_groups: { a: { weights: null } } }],
  ["nvfp4", { quant_method: "modelopt", quant_algo: "NVFP4" }],
  ["bnb-4bit", { quant_method: "bitsandbytes", load_in_4bit: true, load_in_8bit: false }],
  [undefined, { bits: 4, group_size: 64 }],
  [undefined, { quant_method: "a\u001b[2J" }],
  [undefined, { quant_method: ["awq"] }],
  [undefined, "fp8"],
])("%s is read from %o", (quantization, config) => {
  const text = JSON.stringify({ model_type: "llama", quantization_config: config });
  expect(safetensorsQuantization(text)).toBe(quantization);
  const ofVision = JSON.stringify({ text_config: { quantization_config: config } });
  expect(safetensorsQuantization(ofVision)).toBe(quantization);
});

test.each(["", "{", "[]", "null", "{}"])("nothing is read from %j", (text) => {
  expect(safetensorsQuantization(text)).toBe(undefined);
});
