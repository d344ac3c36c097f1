/** Settings of single runtimes on the Linux path. Each is used only by the runtime it names. */
import { z } from "zod";
import { localReference } from "../fields/shared.ts";

const text = (description: string) => z.string().min(1).max(1024).describe(description).optional();
const flag = (description: string) => z.boolean().describe(description).optional();
const whole = (description: string, min = 1) => z.int32().min(min).describe(description).optional();
const share = (description: string) => z.number().min(0.1).max(0.99).describe(description).optional();
const token = () => localReference("Secret with HF_TOKEN.", "Name of the Secret.").optional();

export const vllmConfigSchema = z.object({
  tensorParallelSize: whole("GPUs that share one copy of the model."),
  maxModelLen: whole("Longest sequence in tokens; contextSize means the same for one slot."),
  quantization: z
    .enum(["awq", "gptq", "squeezellm", "fp8", "nvfp4", "mxfp4", "compressed-tensors"])
    .describe("Quantization of the weights. Absent: from the model.")
    .optional(),
  dtype: z.enum(["auto", "float16", "bfloat16"]).describe("Type computed in. Absent: auto.").optional(),
  kvCacheDtype: z
    .enum(["auto", "fp8_e5m2", "fp8_e4m3"])
    .describe("Element type of the KV cache.")
    .default("auto"),
  kvCacheCustomDtype: text("An element type the enum does not know; wins over kvCacheDtype."),
  enablePrefixCaching: flag("Reuses the KV cache of common prompt beginnings."),
  enableChunkedPrefill: flag("Computes long prompts in pieces, between other requests."),
  maxNumBatchedTokens: whole("Tokens computed in one step, at least 512.", 512),
  attentionBackend: text("Attention implementation, for example FLASH_ATTN."),
  speculative: z
    .object({
      enabled: flag("Turns speculative decoding on."),
      model: text("Draft model."),
      numSpeculativeTokens: z.int32().min(1).max(16).describe("Tokens guessed in one step.").default(4),
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
  maxInputLength: whole("Longest prompt in tokens."),
  maxTotalTokens: whole("Longest prompt and answer together, in tokens."),
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
    .describe("Type computed in. Absent: auto.")
    .optional(),
  kvCacheDtype: z
    .enum(["auto", "fp8_e5m2", "fp8_e4m3"])
    .describe("Element type of the KV cache. Absent: auto.")
    .optional(),
  memFractionStatic: share("Share of GPU memory for weights and KV cache, 0.1 to 0.99."),
  maxRunningRequests: whole("Most requests worked on at once."),
  maxTotalTokens: whole("Most tokens held in the KV cache."),
  chunkedPrefillSize: z
    .int32()
    .min(-1)
    .describe("Prompt tokens computed in one piece; -1 turns it off.")
    .optional(),
  maxPrefillTokens: whole("Prompt tokens computed in one step."),
  schedulePolicy: z
    .enum(["lpm", "random", "fcfs", "dfs-weight", "lof"])
    .describe("Order in which requests are worked on.")
    .optional(),
  attentionBackend: text("Attention implementation, for example flashinfer."),
  samplingBackend: text("Sampling implementation."),
  disableRadixCache: flag("Turns off reuse of common prompt beginnings."),
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
  speculativeNumDraftTokens: whole("Tokens guessed in one step."),
  cpuOffloadGB: whole("GB of weights kept in CPU memory.", 0),
  hfTokenSecretRef: token(),
});

export const personaPlexConfigSchema = z.object({
  quantize4Bit: flag("Loads the model in four bits."),
  cpuOffload: flag("Keeps part of the model in CPU memory."),
  hfTokenSecretRef: token(),
});
