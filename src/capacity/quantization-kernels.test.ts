import { expect, test } from "vitest";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import { safetensorsQuantization } from "../models/mlx/quantization.ts";
import { kernelMismatch, kernelNeedOf, quantizationContradiction } from "./quantization-kernels.ts";

function modelOf(quantization?: string, stated?: string, format = "safetensors") {
  const spec = { source: "hf://org/model", format, quantization: stated };
  return { metadata: { name: "m" }, spec, status: { quantization } } as Model;
}
const service = (spec: object = {}) => spec as InferenceServiceSpec;

/** As the files of published checkpoints state it. */
test.each<[object, string, string]>([
  [{ quant_method: "awq", bits: 4, version: "gemm" }, "AWQ", "sm_75"],
  [{ quant_method: "gptq", bits: 4 }, "GPTQ", "sm_70"],
  [{ quant_method: "gptq", bits: 8 }, "GPTQ", "sm_70"],
  [{ quant_method: "fp8", activation_scheme: "dynamic" }, "FP8", "sm_75"],
  [{ quant_method: "fbgemm_fp8" }, "FP8", "sm_75"],
  [
    {
      quant_method: "compressed-tensors",
      config_groups: { group_0: { weights: { num_bits: 8, type: "float" } } },
    },
    "FP8",
    "sm_75",
  ],
  [
    {
      quant_method: "compressed-tensors",
      config_groups: { group_0: { weights: { num_bits: 4, type: "int" } } },
    },
    "INT4",
    "sm_75",
  ],
  [
    {
      quant_method: "compressed-tensors",
      config_groups: { group_0: { weights: { num_bits: 8, type: "int" } } },
    },
    "INT8",
    "sm_75",
  ],
  [{ quant_method: "modelopt", quant_algo: "NVFP4" }, "NVFP4", "sm_75"],
  [{ quant_method: "mxfp4" }, "MXFP4", "sm_80"],
  [{ quant_method: "bitsandbytes", load_in_4bit: true }, "bitsandbytes", "sm_70"],
  [{ quant_method: "bitsandbytes", load_in_8bit: true }, "bitsandbytes", "sm_70"],
])("files with %o need %s, which the oldest GPU that runs it is %s", (quantization_config, name, oldest) => {
  const found = safetensorsQuantization(JSON.stringify({ quantization_config }));
  const need = kernelNeedOf(service(), modelOf(found));
  expect(need?.name).toBe(name);
  expect(kernelMismatch(need, oldest)).toBe(undefined);
  const older = { sm_70: "sm_61", sm_75: "sm_70", sm_80: "sm_75" }[oldest];
  expect(kernelMismatch(need, older)).toMatch(
    new RegExp(`^GPU ${older} is older than .* ${name} needs: \\w+ \\(\\w+\\) or later$`),
  );
  for (const newer of ["sm_89", "sm_90", "sm_100", "sm_120"])
    expect(kernelMismatch(need, newer)).toBe(undefined);
});

test.each([undefined, "", "gfx942", "sm_", "sm_x", "apple-m4"])(
  "a GPU of architecture %s is not refused",
  (arch) => {
    expect(kernelMismatch(kernelNeedOf(service(), modelOf("awq-4bit")), arch)).toBe(undefined);
  },
);

test.each<[string | undefined, string, InferenceServiceSpec, Model]>([
  [
    "FP8",
    "the engine's setting",
    service({ vllmConfig: { quantization: "fp8" } }),
    modelOf("gptq-4bit", "awq"),
  ],
  [
    "bitsandbytes",
    "TGI's setting",
    service({ tgiConfig: { quantize: "bitsandbytes" } }),
    modelOf("awq-4bit"),
  ],
  [
    "GPTQ",
    "the files, if the setting names only a container",
    service({ vllmConfig: { quantization: "compressed-tensors" } }),
    modelOf("gptq-4bit"),
  ],
  ["AWQ", "spec.quantization", service(), modelOf("gptq-4bit", "AWQ")],
  ["GPTQ", "the files, if spec.quantization is no known one", service(), modelOf("gptq-4bit", "Q4_K_M")],
  [undefined, "nothing for files that are not quantized", service(), modelOf()],
  [undefined, "nothing for a GGUF", service(), modelOf("MXFP4", undefined, "gguf")],
  [undefined, "nothing for MLX", service(), modelOf("awq-4bit", undefined, "mlx")],
])("%s is needed by %s", (name, _, spec, model) => {
  expect(kernelNeedOf(spec, model)?.name).toBe(name);
});

test.each<[string | undefined, string | undefined, string | undefined]>([
  ["spec.quantization is awq, but the files are gptq-4bit; nodes are chosen for AWQ", "awq", "gptq-4bit"],
  ["spec.quantization is FP8, but the files are int4; nodes are chosen for FP8", "FP8", "int4"],
  [undefined, "awq", "awq-4bit"],
  [undefined, "AWQ", "int4"],
  [undefined, "int8", "gptq-8bit"],
  [undefined, "Q4_K_M", "awq-4bit"],
  [undefined, "awq", undefined],
  [undefined, undefined, "awq-4bit"],
])("the contradiction is %s: %s and %s", (message, stated, found) => {
  expect(quantizationContradiction(modelOf(found, stated))).toBe(message);
});
