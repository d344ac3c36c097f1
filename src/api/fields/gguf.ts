/** What the header of a GGUF file tells, as Model.status and replicas carry it. */
import { z } from "zod";

const count = (description: string) => z.int().min(0).describe(description).optional();
const word = (description: string) => z.string().max(1024).describe(description).optional();

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
  tensorCount: count("Tensors in the file, over all its parts."),
  fileVersion: count("Version of the GGUF format."),
  license: word("Licence that the file names."),
});

export type GgufFacts = z.output<typeof ggufSchema>;
