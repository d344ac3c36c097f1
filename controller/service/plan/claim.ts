/** The memory claim of a template. */
import type { ReplicaMemory } from "../../../src/api/inference-replica.ts";
import type { Model } from "../../../src/api/model.ts";
import type { TemplateWithoutHost } from "../../../src/api/to-template.ts";

export type Claim =
  | { readonly at: "estimated"; readonly memory: ReplicaMemory }
  /** Only the host can read the file: its agent admits it. */
  | { readonly at: "hostDecides" }
  | { readonly at: "unsizable"; readonly message: string };

export function claimOf(template: TemplateWithoutHost, model: Model, _draft: Model | undefined): Claim {
  const weightsBytes = model.status?.weightsBytes ?? model.status?.sizeBytes;
  if (weightsBytes === undefined) {
    if (isOnHost(template.model.source)) return { at: "hostDecides" };
    return { at: "unsizable", message: `the size of Model ${model.metadata.name} is not known` };
  }
  return {
    at: "estimated",
    memory: {
      claimBytes: weightsBytes,
      weightsBytes,
      kvBytes: 0,
      computeBytes: 0,
      outputBytes: 0,
      promptCacheBytes: 0,
      projectorBytes: 0,
      draftBytes: 0,
      overheadBytes: 0,
    },
  };
}

function isOnHost(source: string): boolean {
  return source.startsWith("file://") || source.startsWith("/");
}
