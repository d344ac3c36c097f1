/** Metadata of a GGUF header, in Model.status and in replicas. */
import { z } from "zod";

const count = (description: string) => z.int().min(0).describe(description).optional();
/** Maximum length of texts from a header; longer ones are truncated. */
export const GGUF_TEXT_MAX = 256;
const word = (description: string) => z.string().max(GGUF_TEXT_MAX).describe(description).optional();

const length = (description: string) => z.int().min(0).describe(description);

export const RECURRENT_KINDS = ["mamba", "mamba2", "deltaNet", "shortConvolution", "wkv"] as const;
export const MODEL_TRAITS = [
  "fusedQKV",
  "fusedGate",
  "noGate",
  "queryNorm",
  "parallel",
  "fusedExperts",
] as const;

/** Details that affect memory, in addition to the counts. */
const sizingSchema = z.object({
  layerKinds: z
    .string()
    .max(4096)
    .regex(/^[awrbn]*$/)
    .describe(
      "One letter per layer, if layers differ: a for full attention, w for attention within slidingWindow, r for recurrent, b for attention and recurrent, n for neither.",
    )
    .optional(),
  headCountKVByLayer: z
    .array(length("Number of key-value heads of a layer that have their own cache."))
    .max(1024)
    .describe("Number of key-value heads per layer, if layers differ.")
    .optional(),
  keyLengthSliding: count("Elements of a key per head in windowed layers, if different from keyLength."),
  valueLengthSliding: count(
    "Elements of a value per head in windowed layers, if different from valueLength.",
  ),
  expertsUsed: count("Number of experts that process a token."),
  expertWidth: count("Feed-forward width of one expert."),
  sharedExpertWidth: count("Total width of the experts that process every token."),
  denseLayers: count("Number of layers, from the first, without experts."),
  latent: z
    .object({
      rank: length("Elements of the compressed keys and values per token."),
      ropeLength: length("Elements of a key that encode its position."),
      queryRank: length("Elements of the compressed query; 0 if queries are not compressed."),
      keyLength: length("Elements of an uncompressed key per head."),
      valueLength: length("Elements of an uncompressed value per head."),
    })
    .describe("Multi-head latent attention, in which the cache holds one compressed vector per token.")
    .optional(),
  recurrent: z
    .object({
      kind: z.enum(RECURRENT_KINDS).describe("Structure of the recurrent layers."),
      stateElements: length("Elements of state per slot and recurrent layer."),
      innerSize: length("Inner width of a recurrent layer."),
      stateSize: length("Elements of state per channel."),
      groups: length("Number of groups that share projections."),
      kernel: length("Kernel size of the convolution, in tokens."),
      rank: length("Rank of the time step, or number of heads."),
    })
    .describe("Recurrent layers, which have a fixed-size state per slot instead of a KV cache.")
    .optional(),
  traits: z
    .array(z.enum(MODEL_TRAITS))
    .max(MODEL_TRAITS.length)
    .describe("Properties of the block structure that affect the compute buffers.")
    .optional(),
});

export const ggufSchema = z.object({
  architecture: word("Model architecture, for example llama or qwen3."),
  modelName: word("Name of the model in the file."),
  quantization: word("Quantization according to the file type, for example Q4_K_M."),
  contextLength: count(
    "Context length in tokens that the model was trained for, which is the useful maximum of contextSize per slot.",
  ),
  embeddingSize: count("Width of the hidden state."),
  layerCount: count("Number of layers, as counted by gpuLayers."),
  headCount: count("Number of attention heads per layer. The maximum, if layers differ."),
  headCountKV: count(
    "Number of key-value heads per layer. The maximum, if layers differ. Determines the size of the KV cache together with keyLength and valueLength.",
  ),
  keyLength: count("Elements of a key per head."),
  valueLength: count("Elements of a value per head."),
  feedForwardLength: count(
    "Feed-forward width of all experts that process a token together. Determines the size of the compute buffers.",
  ),
  vocabularySize: count("Number of tokens in the vocabulary. Determines the size of the output buffers."),
  expertCount: count("Number of experts of a mixture-of-experts model. Absent or 0 for a dense model."),
  slidingWindow: count("Window size of windowed attention layers, in tokens. Absent if there are none."),
  slidingWindowPattern: count(
    "Period of full attention: the last of every N layers attends to the full context, the others to slidingWindow tokens. If the pattern is unknown or irregular, the field is absent and every layer counts as full attention.",
  ),
  sizing: sizingSchema.describe("Details of the layers for the memory claim.").optional(),
  tensorCount: count("Number of tensors in all parts of the file."),
  ranking: z
    .boolean()
    .describe(
      "True if the model can rank documents: its pooling type is rank, or it has a classifier head. Absent if the header was not read.",
    )
    .optional(),
  fileVersion: count("Version of the GGUF format."),
  license: word("License of the model according to the file."),
});

export type ModelSizing = z.output<typeof sizingSchema>;
export type GgufFacts = z.output<typeof ggufSchema>;
