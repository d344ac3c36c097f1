import { expect, test } from "vitest";
import type { ReplicaMemory } from "../api/inference-replica.ts";
import { UNKNOWN_MEMORY } from "./claim.ts";
import { claimRemedy } from "./largest-part.ts";

const GIB = 2 ** 30;

test.each<[string, Partial<ReplicaMemory> | undefined, string]>([
  ["nothing is known", undefined, "lower contextSize or parallelSlots"],
  ["only the process counts", { overheadBytes: GIB }, "lower contextSize or parallelSlots"],
  [
    "the prompt cache",
    { weightsBytes: GIB, kvBytes: 2 * GIB, promptCacheBytes: 8 * GIB },
    "lower promptCacheMiB (the prompt cache takes 8 GiB of it)",
  ],
  [
    "all that grows with the context",
    { weightsBytes: 5 * GIB, kvBytes: 4 * GIB, computeBytes: 2 * GIB },
    "lower contextSize or parallelSlots (the context takes 6 GiB of it)",
  ],
  [
    "the weights",
    { weightsBytes: 5 * GIB, kvBytes: GIB },
    "use a smaller model or quantization (the weights take 5 GiB of it)",
  ],
  ["the projector", { projectorBytes: GIB }, "use a smaller projector (the projector takes 1 GiB of it)"],
  ["the draft", { draftBytes: GIB }, "use a smaller draft model (the draft model takes 1 GiB of it)"],
  ["adapters", { loraBytes: GIB }, "use fewer LoRA adapters (the LoRA adapters take 1 GiB of it)"],
])("advice for a claim whose largest part is: %s", (_name, parts, text) => {
  expect(claimRemedy(parts && { ...UNKNOWN_MEMORY, ...parts })).toBe(text);
});
