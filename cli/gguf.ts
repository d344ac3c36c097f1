/** `metalbridge gguf`: what a GGUF file is, and what an engine with it will take of the memory. */

import { type Command, InvalidArgumentError, Option } from "commander";
import { ggufSchema } from "../src/api/fields/gguf.ts";
import { estimateClaim } from "../src/engines/llamacpp/claim/claim.ts";
import { claimNotes } from "../src/engines/llamacpp/claim/claim-notes.ts";
import type { ClaimSettings } from "../src/engines/llamacpp/claim/claim-settings.ts";
import { CACHE_TYPES } from "../src/engines/llamacpp/claim/kv-cache.ts";
import { readGguf } from "./gguf/read.ts";
import { renderGguf } from "./gguf/render.ts";
import { writeErr, writeOut } from "./program/output.ts";

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
    .argument("<file>", "a GGUF file: a path, https://… or hf://org/repo[/file][@revision]")
    .addOption(number("-c, --context <tokens>", "context of the whole engine, shared by all slots", 1, 4096))
    .addOption(number("-s, --slots <count>", "requests at once", 1, 1))
    .option("--unified-kv", "one KV cache for all slots")
    .addOption(cacheType("--cache-type-k", "element type of the keys in the KV cache"))
    .addOption(cacheType("--cache-type-v", "element type of the values in the KV cache"))
    .addOption(number("--batch <tokens>", "prompt tokens handed over in one step", 1, 2048))
    .addOption(number("--ubatch <tokens>", "prompt tokens computed at once", 1, 512))
    .addOption(
      new Option("--flash-attention <on|off>", "flash attention").choices(["on", "off"]).default("on"),
    )
    .addOption(number("--prompt-cache <MiB>", "memory for the prompts of earlier requests", 0, 1024))
    .option("--draft <file>", "draft model for speculative decoding")
    .option("--mmproj <file>", "projector for images or sound")
    .addOption(
      new Option("-o, --output <format>", "how to print it").choices(["text", "json"]).default("text"),
    )
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
  const text =
    options.output === "json"
      ? JSON.stringify({ gguf: facts, claim, notes }, undefined, 2)
      : renderGguf(facts, claim, read.sizeBytes);
  writeOut(`${text}\n`);
  for (const note of notes) writeErr(`note: ${note}\n`);
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

function number(flags: string, what: string, least: number, value: number): Option {
  return new Option(flags, what).default(value).argParser((text) => {
    const parsed = Number(text);
    if (!/^\d{1,9}$/.test(text) || parsed < least)
      throw new InvalidArgumentError(`It has to be a whole number of at least ${least}.`);
    return parsed;
  });
}
