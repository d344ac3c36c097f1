/** Arguments for context, slots, caches and batches, which determine the memory of the engine. */
import {
  DEFAULT_CONTEXT_PER_SLOT,
  DEFAULT_PROMPT_CACHE_MIB,
  type EngineSettings,
} from "../../api/engine-settings.ts";
import type { ArgvBuilder } from "./argv-builder.ts";
import type { LlamaServerInput } from "./argv-input.ts";

const BLOCK = 32;
const UNQUANTIZED = new Set(["f32", "f16", "bf16"]);

/** Sets all values explicitly, so that the engine uses what was claimed. A build without a flag lacks the feature, too. */
export function addContext(builder: ArgvBuilder, { settings, gguf }: LlamaServerInput): void {
  const slots = settings.parallelSlots ?? 1;
  const perSlot = Math.min(DEFAULT_CONTEXT_PER_SLOT, gguf?.contextLength || DEFAULT_CONTEXT_PER_SLOT);
  builder.argv.push(
    "--ctx-size",
    String(settings.contextSize ?? perSlot * slots),
    "--parallel",
    String(slots),
  );
  if (settings.kvUnified === true) builder.add("kvUnified", ["--kv-unified"]);
  else builder.addIfKnown(["--no-kv-unified", "-no-kvu"]);
  builder.addIfKnown(["--fit"], "off");
  addPromptCache(builder, settings);
  addRope(builder, settings);
}

function addPromptCache(builder: ArgvBuilder, settings: EngineSettings): void {
  const size = settings.mode === "chat" ? (settings.promptCacheMiB ?? DEFAULT_PROMPT_CACHE_MIB) : 0;
  const isTyped = settings.mode === "chat" && (settings.promptCacheMiB ?? 0) > 0;
  if (isTyped) builder.add("promptCacheMiB", ["--cache-ram"], String(size));
  else builder.addIfKnown(["--cache-ram"], String(size));
}

function addRope(builder: ArgvBuilder, settings: EngineSettings): void {
  const rope = settings.ropeScaling;
  if (rope === undefined) return;
  builder.add("ropeScaling.type", ["--rope-scaling"], rope.type);
  if (rope.factor !== undefined) builder.add("ropeScaling.factor", ["--rope-scale"], rope.factor);
  if (rope.originalContext !== undefined) {
    builder.add("ropeScaling.originalContext", ["--yarn-orig-ctx"], String(rope.originalContext));
  }
}

/** Adds the data types of the KV cache, and flash attention, which quantized values require. */
export function addCacheSettings(builder: ArgvBuilder, { settings, gguf }: LlamaServerInput): void {
  const keys = settings.cacheTypeCustomK ?? settings.cacheTypeK;
  const values = settings.cacheTypeCustomV ?? settings.cacheTypeV;
  if (keys !== undefined) {
    builder.add("cacheTypeK", ["--cache-type-k"], keys);
    checkBlock(builder, "cacheTypeK", keys, gguf?.keyLength);
  }
  if (values !== undefined) {
    builder.add("cacheTypeV", ["--cache-type-v"], values);
    checkBlock(builder, "cacheTypeV", values, gguf?.valueLength);
    if (settings.flashAttention === false && !UNQUANTIZED.has(values)) {
      builder.refuse(
        "cacheTypeV",
        `${values} needs flash attention, which flashAttention: false turns off`,
        "CacheTypeMismatch",
      );
    }
  }
  addFlashAttention(builder, settings.flashAttention);
}

/** llama-server exits at the start if the head length is not a multiple of the block size. */
function checkBlock(builder: ArgvBuilder, field: string, type: string, headLength: number | undefined): void {
  if (headLength === undefined || headLength === 0 || UNQUANTIZED.has(type) || headLength % BLOCK === 0)
    return;
  const why = `${type} has blocks of ${BLOCK}, which do not divide this model's head length ${headLength}`;
  builder.refuse(field, why, "CacheTypeMismatch");
}

/** Older builds have a switch without a value, which is off by default. */
function addFlashAttention(builder: ArgvBuilder, isOn: boolean | undefined): void {
  const takesValue = builder.flag("--flash-attn")?.value !== undefined;
  if (takesValue) builder.addIfKnown(["--flash-attn"], isOn === undefined ? "auto" : isOn ? "on" : "off");
  else if (isOn === true) builder.add("flashAttention", ["--flash-attn"]);
}
