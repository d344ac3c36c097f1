/** Settings of single runtimes in pods. Each is used only by the runtime it names. */
import { z } from "zod";
import { localReference } from "../fields/shared.ts";

const text = (description: string) => z.string().min(1).max(1024).describe(description).optional();
const flag = (description: string) => z.boolean().describe(description).optional();
const whole = (description: string, min = 1) => z.int32().min(min).describe(description).optional();
const share = (description: string) => z.number().min(0.1).max(0.99).describe(description).optional();
const token = () =>
  localReference("Secret with a Hugging Face token.", "Name of the Secret.")
    .extend({
      key: z
        .string()
        .min(1)
        .max(253)
        .regex(/^[-._a-zA-Z0-9]+$/)
        .describe("Key of the token in the Secret. Absent: HF_TOKEN.")
        .optional(),
    })
    .describe("Secret with a Hugging Face token.")
    .optional();

export const vllmConfigSchema = z.object({
  tensorParallelSize: whole("GPUs that share one copy of the model."),
  maxModelLen: whole("Longest sequence in tokens; contextSize means the same for one slot."),
  quantization: z
    .enum(["awq", "gptq", "squeezellm", "fp8", "nvfp4", "mxfp4", "compressed-tensors"])
    .describe("Quantization of the weights. Absent: the model's.")
    .optional(),
  dtype: z
    .enum(["auto", "float16", "bfloat16"])
    .describe("Data type of the computation. Absent: auto.")
    .optional(),
  kvCacheDtype: z
    .enum(["auto", "fp8_e5m2", "fp8_e4m3"])
    .describe("Element type of the KV cache.")
    .default("auto"),
  kvCacheCustomDtype: text("An element type outside the enum; overrides kvCacheDtype."),
  enablePrefixCaching: flag("Reuses the KV cache of common prompt prefixes."),
  enableChunkedPrefill: flag("Splits long prompts into chunks that run between other requests."),
  maxNumBatchedTokens: whole("Tokens computed in one step, at least 512.", 512),
  attentionBackend: text("Attention implementation, for example FLASH_ATTN."),
  speculative: z
    .object({
      enabled: flag("Turns speculative decoding on."),
      model: text("Draft model."),
      numSpeculativeTokens: z.int32().min(1).max(16).describe("Tokens drafted in one step.").default(4),
    })
    .describe("Speculative decoding of vLLM.")
    .optional(),
  enableExpertParallel: flag("Spreads experts over GPUs."),
  hfTokenSecretRef: token(),
  cpuOffloadGB: whole("GB of weights kept in CPU memory, per GPU.", 0),
  gpuMemoryUtilization: share("Share of GPU memory to use, 0.1 to 0.99."),
});

export const tgiConfigSchema = z.object({
  quantize: z
    .enum(["bitsandbytes", "gptq", "awq", "eetq"])
    .describe("Quantization of the weights.")
    .optional(),
  maxInputLength: whole("Maximum prompt length in tokens."),
  maxTotalTokens: whole("Maximum length of prompt and answer together, in tokens."),
  dtype: z.enum(["float16", "bfloat16"]).describe("Type computed in. Absent: from the model.").optional(),
  hfTokenSecretRef: token(),
});

export const sglangConfigSchema = z.object({
  tensorParallelSize: whole("GPUs that share one copy of the model."),
  dataParallelSize: whole("Copies of the model behind one server."),
  pipelineParallelSize: whole("Stages that the layers are split into."),
  expertParallelSize: whole("GPUs that share the experts."),
  contextLength: whole("Longest sequence in tokens."),
  quantization: text("Quantization of the weights, for example fp8 or awq."),
  dtype: z
    .enum(["auto", "half", "float16", "bfloat16", "float", "float32"])
    .describe("Data type of the computation. Absent: auto.")
    .optional(),
  kvCacheDtype: z
    .enum(["auto", "fp8_e5m2", "fp8_e4m3"])
    .describe("Element type of the KV cache. Absent: auto.")
    .optional(),
  memFractionStatic: share("Share of GPU memory for weights and KV cache, 0.1 to 0.99."),
  maxRunningRequests: whole("Maximum number of concurrent requests."),
  maxTotalTokens: whole("Maximum number of tokens in the KV cache."),
  chunkedPrefillSize: z
    .int32()
    .min(-1)
    .describe("Prompt tokens per chunk; -1 turns chunking off.")
    .optional(),
  maxPrefillTokens: whole("Prompt tokens computed in one step."),
  schedulePolicy: z
    .enum(["lpm", "random", "fcfs", "dfs-weight", "lof"])
    .describe("Scheduling order of requests.")
    .optional(),
  attentionBackend: text("Attention implementation, for example flashinfer."),
  samplingBackend: text("Sampling implementation."),
  disableRadixCache: flag("Turns off reuse of common prompt prefixes."),
  disableCudaGraph: flag("Turns off CUDA graphs."),
  enableTorchCompile: flag("Compiles the model with torch."),
  enableMixedChunk: flag("Mixes prompt pieces with generation."),
  enableDPAttention: flag("Data-parallel attention."),
  trustRemoteCode: flag("Runs code that comes with the model."),
  reasoningParser: text("Parser for the thinking part of answers."),
  toolCallParser: text("Parser for tool calls."),
  chatTemplate: text("Built-in chat template or file in the image."),
  speculativeAlgorithm: text("Speculative decoding algorithm, for example EAGLE."),
  speculativeDraftModelPath: text("Draft model."),
  speculativeNumSteps: whole("Steps guessed ahead."),
  speculativeEagleTopk: whole("Branches guessed at each step."),
  speculativeNumDraftTokens: whole("Tokens drafted in one step."),
  cpuOffloadGB: whole("GB of weights kept in CPU memory.", 0),
  hfTokenSecretRef: token(),
});

export const personaPlexConfigSchema = z.object({
  quantize4Bit: flag("Loads the model in four bits."),
  cpuOffload: flag("Keeps part of the model in CPU memory."),
  hfTokenSecretRef: token(),
});
