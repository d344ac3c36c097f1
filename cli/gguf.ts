/** `metalbridge gguf`: shows the contents of a GGUF file, and the memory that an engine needs for it. */

import { type Command, Option } from "commander";
import { ggufSchema } from "../src/api/fields/gguf.ts";
import { estimateClaim } from "../src/engines/llamacpp/claim/claim.ts";
import { claimNotes } from "../src/engines/llamacpp/claim/claim-notes.ts";
import type { ClaimSettings } from "../src/engines/llamacpp/claim/claim-settings.ts";
import { CACHE_TYPES } from "../src/engines/llamacpp/claim/kv-cache.ts";
import { countParser, outputFlag } from "./cluster/flags.ts";
import { readGguf } from "./gguf/read.ts";
import { renderGguf } from "./gguf/render.ts";
import { printNote, printResult } from "./program/output.ts";

interface GgufOptions {
  readonly context: number;
  readonly slots: number;
  readonly unifiedKv?: boolean;
  readonly cacheTypeK: string;
  readonly cacheTypeV: string;
  readonly batch: number;
  readonly ubatch: number;
  readonly flashAttention: "on" | "off";
  readonly promptCache: number;
  readonly draft?: string;
  readonly mmproj?: string;
  readonly output: "text" | "json";
}

/** Options and action of the verb. */
export function configureGguf(command: Command): void {
  const cacheType = (flag: string, what: string) =>
    new Option(`${flag} <type>`, what).choices([...CACHE_TYPES]).default("f16");
  command
    .argument("<file>", "GGUF file: a path, https://… or hf://org/repo[/file][@revision]")
    .option("-c, --context <tokens>", "context size of the engine, shared by all slots", countParser(1), 4096)
    .option("-s, --slots <count>", "number of concurrent requests", countParser(1), 1)
    .option("--unified-kv", "share one KV cache between all slots")
    .addOption(cacheType("--cache-type-k", "element type of the keys in the KV cache"))
    .addOption(cacheType("--cache-type-v", "element type of the values in the KV cache"))
    .option("--batch <tokens>", "logical batch size, in prompt tokens", countParser(1), 2048)
    .option("--ubatch <tokens>", "physical batch size, in prompt tokens", countParser(1), 512)
    .addOption(
      new Option("--flash-attention <on|off>", "flash attention").choices(["on", "off"]).default("on"),
    )
    .option("--prompt-cache <MiB>", "memory for cached prompts of earlier requests", countParser(0), 1024)
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
    ...settingsOf(options),
    draft: draft?.summary,
    projectorSizeBytes: projector?.sizeBytes,
  };
  const claim = estimateClaim(read.summary, settings);
  const facts = ggufSchema.parse(read.summary);
  const notes = claimNotes(facts, settings);
  printResult(options.output, { gguf: facts, claim, notes }, () => renderGguf(facts, claim, read.sizeBytes));
  for (const note of notes) printNote(`note: ${note}`);
}

function settingsOf(options: GgufOptions): ClaimSettings {
  return {
    mode: "chat",
    contextSize: options.context,
    parallelSlots: options.slots,
    kvUnified: options.unifiedKv ?? false,
    cacheTypeCustomK: options.cacheTypeK,
    cacheTypeCustomV: options.cacheTypeV,
    batchSize: options.batch,
    uBatchSize: options.ubatch,
    flashAttention: options.flashAttention === "on",
    promptCacheMiB: options.promptCache,
  };
}
