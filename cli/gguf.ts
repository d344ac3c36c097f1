/** `metalbridge gguf`: shows the contents of a GGUF file, and the memory that an engine needs for it. */

import type { Command } from "commander";
import { type GgufFacts, ggufSchema } from "../src/api/fields/gguf.ts";
import type { MemoryClaim } from "../src/engines/contract/claims.ts";
import { estimateClaim } from "../src/engines/llamacpp/claim/claim.ts";
import { claimNotes } from "../src/engines/llamacpp/claim/claim-notes.ts";
import { formatBytes } from "../src/util/bytes.ts";
import { outputFlag } from "./cluster/flags.ts";
import { addSizingOptions, sizingOf } from "./fit/sizing.ts";
import { readGguf } from "./gguf/read.ts";
import { claimParts } from "./program/claim-parts.ts";
import { printNote, printResult } from "./program/output.ts";

interface GgufOptions {
  readonly draft?: string;
  readonly mmproj?: string;
  readonly output: "text" | "json";
}

/** Options and action of the verb. */
export function configureGguf(command: Command): void {
  addSizingOptions(command, { withDefaults: true })
    .argument("<file>", "GGUF file: a path, https://… or hf://org/repo[/file][@revision]")
    .option("--draft <file>", "draft model for speculative decoding")
    .option("--mmproj <file>", "projector file for images or audio")
    .addOption(outputFlag())
    .action(gguf);
}

async function gguf(file: string, options: GgufOptions): Promise<void> {
  const read = await readGguf(file);
  const draft = options.draft === undefined ? undefined : await readGguf(options.draft);
  const projector = options.mmproj === undefined ? undefined : await readGguf(options.mmproj);
  const settings = {
    mode: "chat" as const,
    ...sizingOf(options),
    draft: draft?.summary,
    projectorSizeBytes: projector?.sizeBytes,
  };
  const claim = estimateClaim(read.summary, settings);
  const facts = ggufSchema.parse(read.summary);
  const notes = claimNotes(facts, settings);
  printResult(options.output, { gguf: facts, claim, notes }, () => renderGguf(facts, claim, read.sizeBytes));
  for (const note of notes) printNote(`note: ${note}`);
}

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
function renderGguf(facts: GgufFacts, claim: MemoryClaim, sizeBytes: number | undefined): string {
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
