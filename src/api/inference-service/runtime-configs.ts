/** Settings of single runtimes in pods. */
import { z } from "zod";
import { int32, localReference, nonEmpty } from "../fields/shared.ts";

const text = (description: string) => nonEmpty(1024).describe(description).optional();
const flag = (description: string) => z.boolean().describe(description).optional();
const whole = (description: string, min = 1) => z.int32().min(min).describe(description).optional();
const share = (description: string) => z.number().min(0.1).max(0.99).describe(description).optional();
const token = () =>
  localReference("Secret with a Hugging Face token.", "Name of the Secret.")
    .extend({
      key: nonEmpty(253)
        .regex(/^[-._a-zA-Z0-9]+$/)
        .describe("Key of the token in the Secret. Defaults to HF_TOKEN.")
        .optional(),
    })
    .describe("Secret with a Hugging Face token.")
    .optional();

export const vllmConfigSchema = z.object({
  tensorParallelSize: whole("Number of GPUs that share one copy of the model."),
  maxModelLen: whole("Maximum sequence length in tokens. Overrides contextSize."),
  quantization: z
    .enum(["awq", "gptq", "squeezellm", "fp8", "nvfp4", "mxfp4", "compressed-tensors"])
    .describe("Quantization of the weights. Defaults to that of the model.")
    .optional(),
  dtype: z
    .enum(["auto", "float16", "bfloat16"])
    .describe("Data type of the computation. Defaults to auto.")
    .optional(),
  kvCacheDtype: z
    .enum(["auto", "fp8_e5m2", "fp8_e4m3"])
    .describe("Data type of the KV cache. Defaults to auto.")
    .default("auto"),
  kvCacheCustomDtype: text("Data type that is not listed for kvCacheDtype. Overrides kvCacheDtype."),
  enablePrefixCaching: flag("Enables reuse of the KV cache for common prompt prefixes."),
  enableChunkedPrefill: flag("Splits long prompts into chunks that are processed between other requests."),
  maxNumBatchedTokens: whole("Maximum number of tokens computed in one step, at least 512.", 512),
  attentionBackend: text("Attention implementation, for example FLASH_ATTN."),
  speculative: z
    .object({
      enabled: flag("Enables speculative decoding."),
      model: text("Draft model."),
      numSpeculativeTokens: int32(1, 16).describe("Number of tokens drafted in one step.").default(4),
    })
    .describe("Speculative decoding of vLLM.")
    .optional(),
  enableExpertParallel: flag("Distributes experts over the GPUs."),
  hfTokenSecretRef: token(),
  cpuOffloadGB: whole("Weights that stay in CPU memory per GPU, in GB.", 0),
  gpuMemoryUtilization: share("Fraction of GPU memory to use, from 0.1 to 0.99."),
});

export const tgiConfigSchema = z.object({
  quantize: z
    .enum(["bitsandbytes", "gptq", "awq", "eetq"])
    .describe("Quantization of the weights.")
    .optional(),
  maxInputLength: whole("Maximum prompt length in tokens."),
  maxTotalTokens: whole("Maximum total length of prompt and response in tokens."),
  dtype: z
    .enum(["float16", "bfloat16"])
    .describe("Data type of the computation. Defaults to that of the model.")
    .optional(),
  hfTokenSecretRef: token(),
});

export const sglangConfigSchema = z.object({
  tensorParallelSize: whole("Number of GPUs that share one copy of the model."),
  dataParallelSize: whole("Number of copies of the model behind one server."),
  pipelineParallelSize: whole("Number of pipeline stages."),
  expertParallelSize: whole("Number of GPUs that share the experts."),
  contextLength: whole("Maximum sequence length in tokens."),
  quantization: text("Quantization of the weights, for example fp8 or awq."),
  dtype: z
    .enum(["auto", "half", "float16", "bfloat16", "float", "float32"])
    .describe("Data type of the computation. Defaults to auto.")
    .optional(),
  kvCacheDtype: z
    .enum(["auto", "fp8_e5m2", "fp8_e4m3"])
    .describe("Data type of the KV cache. Defaults to auto.")
    .optional(),
  memFractionStatic: share("Fraction of GPU memory for weights and KV cache, from 0.1 to 0.99."),
  maxRunningRequests: whole("Maximum number of concurrent requests."),
  maxTotalTokens: whole("Maximum number of tokens in the KV cache."),
  chunkedPrefillSize: z
    .int32()
    .min(-1)
    .describe("Number of prompt tokens per chunk; -1 disables chunking.")
    .optional(),
  maxPrefillTokens: whole("Maximum number of prompt tokens computed in one step."),
  schedulePolicy: z
    .enum(["lpm", "random", "fcfs", "dfs-weight", "lof"])
    .describe("Scheduling order of requests.")
    .optional(),
  attentionBackend: text("Attention implementation, for example flashinfer."),
  samplingBackend: text("Sampling implementation."),
  disableRadixCache: flag("Disables reuse of the KV cache for common prompt prefixes."),
  disableCudaGraph: flag("Disables CUDA graphs."),
  enableTorchCompile: flag("Compiles the model with torch.compile."),
  enableMixedChunk: flag("Mixes prompt chunks with generation in one batch."),
  enableDPAttention: flag("Enables data-parallel attention."),
  trustRemoteCode: flag("Runs code from the model repository."),
  reasoningParser: text("Parser for the reasoning part of responses."),
  toolCallParser: text("Parser for tool calls."),
  chatTemplate: text("Name of a built-in chat template, or path of a file in the image."),
  speculativeAlgorithm: text("Speculative decoding algorithm, for example EAGLE."),
  speculativeDraftModelPath: text("Draft model."),
  speculativeNumSteps: whole("Number of draft steps."),
  speculativeEagleTopk: whole("Number of branches at each draft step."),
  speculativeNumDraftTokens: whole("Number of tokens drafted in one step."),
  cpuOffloadGB: whole("Weights that stay in CPU memory, in GB.", 0),
  hfTokenSecretRef: token(),
});

export const personaPlexConfigSchema = z.object({
  quantize4Bit: flag("Loads the model with 4-bit quantization."),
  cpuOffload: flag("Offloads part of the model to CPU memory."),
  hfTokenSecretRef: token(),
});
