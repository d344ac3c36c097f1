/** The largest part of a memory claim, and the change that reduces it. Pure. */
import type { ReplicaMemory } from "../api/inference-replica.ts";
import { formatBytes } from "../util/bytes.ts";

interface Part {
  readonly name: string;
  readonly bytes: (memory: ReplicaMemory) => number;
  readonly remedy: string;
}

/** The engine process itself is missing: nothing reduces it. */
const PARTS: readonly Part[] = [
  { name: "weights", bytes: (memory) => memory.weightsBytes, remedy: "use a smaller model or quantization" },
  {
    name: "context",
    bytes: ({ kvBytes, computeBytes, outputBytes }) => kvBytes + computeBytes + outputBytes,
    remedy: "lower contextSize or parallelSlots",
  },
  { name: "prompt cache", bytes: (memory) => memory.promptCacheBytes, remedy: "lower promptCacheMiB" },
  { name: "projector", bytes: (memory) => memory.projectorBytes, remedy: "use a smaller projector" },
  { name: "draft model", bytes: (memory) => memory.draftBytes, remedy: "use a smaller draft model" },
  { name: "LoRA adapters", bytes: (memory) => memory.loraBytes, remedy: "use fewer LoRA adapters" },
];

/** For example "lower promptCacheMiB (the prompt cache takes 8 GiB)". `memory` is undefined if the parts are unknown. */
export function claimRemedy(memory: ReplicaMemory | undefined): string {
  if (memory === undefined) return "lower contextSize or parallelSlots";
  const [largest] = PARTS.map((part) => ({ ...part, size: part.bytes(memory) })).sort(
    (a, b) => b.size - a.size,
  );
  if (largest === undefined || largest.size === 0) return "lower contextSize or parallelSlots";
  const verb = largest.name === "weights" || largest.name === "LoRA adapters" ? "take" : "takes";
  return `${largest.remedy} (the ${largest.name} ${verb} ${formatBytes(largest.size)} of it)`;
}
