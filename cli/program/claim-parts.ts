/** The labels of the parts of a memory claim. Pure. */
import type { ReplicaMemory } from "../../src/api/inference-replica.ts";

const LABELS = {
  weightsBytes: "weights",
  kvBytes: "KV cache",
  computeBytes: "compute buffers",
  outputBytes: "output buffers",
  promptCacheBytes: "prompt cache",
  projectorBytes: "projector",
  draftBytes: "draft model",
  loraBytes: "LoRA adapters",
  overheadBytes: "process and margin",
} as const satisfies { readonly [Key in keyof ReplicaMemory]?: string };

/** The parts of the claim that are not zero. */
export function claimParts(
  claim: Pick<ReplicaMemory, keyof typeof LABELS>,
): readonly (readonly [label: string, bytes: number])[] {
  const keys = Object.keys(LABELS) as (keyof typeof LABELS)[];
  return keys.flatMap((key) => (claim[key] ? [[LABELS[key], claim[key]] as const] : []));
}
