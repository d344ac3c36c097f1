/** Models for tests of how services are resolved. */
import type { Model } from "../../api/model.ts";

/** What the controller reads from the header of a GGUF of 16 layers. */
export const GGUF = {
  architecture: "llama",
  contextLength: 8192,
  embeddingSize: 2048,
  layerCount: 16,
  headCount: 32,
  headCountKV: 8,
  keyLength: 64,
  valueLength: 64,
};

/** A Model for Macs whose source has been read. */
export function readyModel(spec: object = {}, status: object = {}, name = "tiny"): Model {
  return {
    metadata: { name, namespace: "default", generation: 1 },
    spec: {
      source: `https://models.example/${name}.gguf`,
      hardware: { accelerator: "metal" },
      ...spec,
    },
    status: { phase: "Ready", observedGeneration: 1, ...status },
  } as unknown as Model;
}
