/** Metadata of a GGUF header, as in Model.status and in replicas. */
import { z } from "zod";

const count = (description: string) => z.int().min(0).describe(description).optional();
/** What a header says of itself can be any text; longer ones are cut. */
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

/** What sizes memory beyond the plain counts. */
const sizingSchema = z.object({
  layerKinds: z
    .string()
    .max(4096)
    .regex(/^[awrbn]*$/)
    .describe(
      "One letter per layer where layers differ: a attention over everything, w attention within slidingWindow, r recurrent, b both side by side, n neither.",
    )
    .optional(),
  headCountKVByLayer: z
    .array(length("Key-value heads of one layer that have a cache of their own."))
    .max(1024)
    .describe("Key-value heads per layer, if layers differ.")
    .optional(),
  keyLengthSliding: count("Elements of one key per head in windowed layers, where that differs."),
  valueLengthSliding: count("Elements of one value per head in windowed layers, where that differs."),
  expertsUsed: count("Experts that work on one token."),
  expertWidth: count("Width of one expert's feed-forward part."),
  sharedExpertWidth: count("Width of the experts that work on every token, together."),
  denseLayers: count("Layers at the beginning that have no experts."),
  latent: z
    .object({
      rank: length("Elements of the compressed keys and values of a token."),
      ropeLength: length("Elements of a key that carry its position."),
      queryRank: length("Elements of the compressed query; 0 where it is not compressed."),
      keyLength: length("Elements of one key per head when it is not compressed."),
      valueLength: length("Elements of one value per head when it is not compressed."),
    })
    .describe("Multi-head latent attention: the cache holds one compressed vector per token.")
    .optional(),
  recurrent: z
    .object({
      kind: z.enum(RECURRENT_KINDS).describe("Structure of the recurrent layers."),
      stateElements: length("Elements of state per slot and recurrent layer."),
      innerSize: length("Width inside a recurrent layer."),
      stateSize: length("Elements of state per channel."),
      groups: length("Groups that share their projections."),
      kernel: length("Tokens that the convolution looks back."),
      rank: length("Rank of the time step, or the number of heads."),
    })
    .describe("Layers with a fixed-size state per slot instead of a KV cache.")
    .optional(),
  traits: z
    .array(z.enum(MODEL_TRAITS))
    .max(MODEL_TRAITS.length)
    .describe("Block structure, as far as it affects the compute buffers.")
    .optional(),
});

export const ggufSchema = z.object({
  architecture: word("Model architecture, for example llama or qwen3."),
  modelName: word("The name that the file gives itself."),
  quantization: word("Quantization named by the file's type, for example Q4_K_M."),
  contextLength: count("Tokens that the model was trained for; the useful maximum of contextSize per slot."),
  embeddingSize: count("Width of the hidden state."),
  layerCount: count("Number of blocks, which is also what gpuLayers counts."),
  headCount: count("Attention heads per layer (the largest, where layers differ)."),
  headCountKV: count(
    "Key-value heads per layer (the largest, where layers differ); with the lengths it sizes the KV cache.",
  ),
  keyLength: count("Elements of one key per head."),
  valueLength: count("Elements of one value per head."),
  feedForwardLength: count(
    "Width of the feed-forward part, of all experts in use together; it sizes the compute buffers.",
  ),
  vocabularySize: count("Tokens of the vocabulary; it sizes the output buffers."),
  expertCount: count("Experts of a mixture-of-experts model; absent or 0 for a dense one."),
  slidingWindow: count("Tokens that windowed attention layers look back; absent where there are none."),
  slidingWindowPattern: count(
    "Every so many layers the last one looks back over everything and the others only slidingWindow tokens; absent where that is not known or not regular, and then every layer counts in full.",
  ),
  sizing: sizingSchema.describe("Details of the layers that the memory claim needs.").optional(),
  tensorCount: count("Number of tensors, over all parts of the file."),
  ranking: z
    .boolean()
    .describe(
      "Whether the file can score a document against a query: pooling type rank, or a classifier head. Absent: not read.",
    )
    .optional(),
  fileVersion: count("Version of the GGUF format."),
  license: word("License stated in the file."),
});

export type ModelSizing = z.output<typeof sizingSchema>;
export type GgufFacts = z.output<typeof ggufSchema>;
