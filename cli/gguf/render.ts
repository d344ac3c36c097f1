/** The table of `metalbridge gguf`. */

import type { GgufFacts } from "../../src/api/fields/gguf.ts";
import type { MemoryClaim } from "../../src/engines/contract/claims.ts";
import { formatBytes } from "../../src/util/bytes.ts";

const FACT_NAMES: readonly (readonly [keyof GgufFacts, string])[] = [
  ["modelName", "name"],
  ["architecture", "architecture"],
  ["quantization", "quantization"],
  ["contextLength", "trained context"],
  ["layerCount", "layers"],
  ["embeddingSize", "width"],
  ["headCount", "heads"],
  ["headCountKV", "key-value heads"],
  ["keyLength", "key length"],
  ["valueLength", "value length"],
  ["expertCount", "experts"],
  ["slidingWindow", "sliding window"],
  ["tensorCount", "tensors"],
  ["license", "license"],
];

const CLAIM_NAMES: readonly (readonly [keyof MemoryClaim, string])[] = [
  ["weightsBytes", "weights"],
  ["kvBytes", "KV cache"],
  ["computeBytes", "compute buffers"],
  ["outputBytes", "output buffer"],
  ["promptCacheBytes", "prompt cache"],
  ["projectorBytes", "projector"],
  ["draftBytes", "draft model"],
  ["loraBytes", "LoRA adapters"],
  ["overheadBytes", "process"],
  ["claimBytes", "claim"],
];

/** Facts, then the parts of the claim; what is absent or zero is left out. */
export function renderGguf(facts: GgufFacts, claim: MemoryClaim, sizeBytes: number | undefined): string {
  const rows = FACT_NAMES.flatMap(([key, name]) =>
    facts[key] === undefined ? [] : [[name, String(facts[key])]],
  );
  const size = sizeBytes === undefined ? [] : [["file size", formatBytes(sizeBytes)]];
  const parts = CLAIM_NAMES.flatMap(([key, name]) =>
    claim[key] === 0 ? [] : [[name, formatBytes(claim[key])]],
  );
  const width = Math.max(...parts.map(([, text]) => text?.length ?? 0));
  return [
    ...[...rows, ...size].map(([name = "", text]) => `${name.padEnd(NAME_WIDTH)}${text}`),
    "",
    "memory",
    ...parts.map(([name = "", text = ""]) => `  ${name.padEnd(NAME_WIDTH - 2)}${text.padStart(width)}`),
  ].join("\n");
}

const NAME_WIDTH = 18;
