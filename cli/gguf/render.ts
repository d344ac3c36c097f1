/** The table of `metalbridge gguf`. */

import type { GgufFacts } from "../../src/api/fields/gguf.ts";
import type { MemoryClaim } from "../../src/engines/contract/claims.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { claimParts } from "../program/claim-parts.ts";

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

/** Facts, then the parts of the claim. Absent facts and parts of size zero are omitted. */
export function renderGguf(facts: GgufFacts, claim: MemoryClaim, sizeBytes: number | undefined): string {
  const rows = FACT_NAMES.flatMap(([key, name]) =>
    facts[key] === undefined ? [] : [[name, String(facts[key])]],
  );
  const size = sizeBytes === undefined ? [] : [["file size", formatBytes(sizeBytes)]];
  const all = [...claimParts(claim), ["claim", claim.claimBytes] as const];
  const parts = all.map(([label, bytes]) => [label, formatBytes(bytes)]);
  const width = Math.max(...parts.map(([, text]) => text?.length ?? 0));
  return [
    ...[...rows, ...size].map(([name = "", text]) => `${name.padEnd(NAME_WIDTH)}${text}`),
    "",
    "memory",
    ...parts.map(([name = "", text = ""]) => `  ${name.padEnd(NAME_WIDTH - 2)}${text.padStart(width)}`),
  ].join("\n");
}

const NAME_WIDTH = 22;
