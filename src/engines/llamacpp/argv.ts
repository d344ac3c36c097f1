/** The command line of llama-server for a replica, which sets everything explicitly that the memory claim includes. */
import {
  DEFAULT_CONTEXT_PER_SLOT,
  DEFAULT_PROMPT_CACHE_MIB,
  type EngineSettings,
  engineFields,
} from "../../api/engine-settings.ts";
import { type ArgvBuilder, type ArgvProblem, createArgvBuilder } from "./argv-builder.ts";
import type { LlamaServerInput, LoraAdapter } from "./argv-input.ts";
import type { Capabilities } from "./capabilities.ts";
import { checkExtraArgs } from "./extra-args.ts";
import { LLAMACPP_SETTINGS, plainArguments } from "./settings.ts";

/** Arguments without the program, and all unsupported settings. The engine must not be started if there are any. */
export function buildArgv(
  input: LlamaServerInput,
  capabilities: Capabilities,
): { readonly argv: readonly string[]; readonly problems: readonly ArgvProblem[] } {
  const builder = createArgvBuilder(capabilities);
  addServer(builder, input);
  addContext(builder, input);
  addCacheSettings(builder, input);
  addPlacement(builder, input);
  for (const [field, flag, value] of plainArguments(input.settings)) builder.add(field, [flag], value);
  addMode(builder, input.settings);
  addChat(builder, input);
  addLora(builder, input.loraAdapters ?? []);
  addDraft(builder, input);
  refuseForeign(builder, input.settings);
  const extra = checkExtraArgs(input.settings.extraArgs ?? [], capabilities);
  if (input.chatTemplatePath !== undefined && extra.flags.has("--chat-template"))
    builder.refuse("chatTemplate", "extraArgs has --chat-template too: remove one of them");
  if (!extra.flags.has(ORIGINS)) builder.addIfKnown([ORIGINS], "localhost");
  const argv = [...builder.argv, ...extra.argv];
  return { argv, problems: [...builder.problems, ...extra.problems, ...argv.flatMap(unpassable)] };
}

/** By default, the build allows web pages of any origin to read responses through the browser of a user. */
const ORIGINS = "--cors-origins";

/** A C string ends at a NUL, so the engine would get a different argument than the one that was checked. */
function unpassable(argument: string, index: number, argv: readonly string[]): ArgvProblem[] {
  if (!argument.includes("\0")) return [];
  const why = `${argv[index - 1] ?? "an argument"} has a value with a NUL character`;
  return [{ field: "engine", why, code: "SettingNotSupported" }];
}

function addServer(builder: ArgvBuilder, input: LlamaServerInput): void {
  builder.argv.push("--model", input.modelPath);
  if (input.mmprojPath !== undefined) builder.add("model.mmproj", ["--mmproj"], input.mmprojPath);
  builder.argv.push("--host", input.hosts.join(","), "--port", String(input.port));
  if (input.hosts.length > 1 && !canListenTwice(builder)) {
    builder.refuse(
      "runtime",
      `llama-server ${builder.capabilities.version} cannot listen on loopback and on ${input.hosts[1]}`,
      "RuntimeTooOld",
    );
  }
  const alias = input.aliases.filter((name) => name !== "").join(",");
  if (alias !== "") builder.addIfKnown(["--alias"], alias);
  builder.add("runtime", ["--metrics"]);
  builder.addIfKnown(["--no-ui", "--no-webui"]);
  builder.addIfKnown(["--offline"]);
  if (input.slotSavePath !== undefined)
    builder.add("slotSaveRestore", ["--slot-save-path"], input.slotSavePath);
  if (input.apiKeyFile !== undefined) builder.add("auth", ["--api-key-file"], input.apiKeyFile);
}

function canListenTwice(builder: ArgvBuilder): boolean {
  return builder.flag("--host")?.description.includes("comma-separated") === true;
}

/** Sets all layers explicitly, because the default of the build may silently leave layers on the CPU. */
function addPlacement(builder: ArgvBuilder, { settings, split }: LlamaServerInput): void {
  const layers = settings.gpuLayers ?? -1;
  const flag = builder.flag("--n-gpu-layers");
  const all = flag?.description.includes("'all'") === true ? "all" : "999";
  builder.addIfKnown(["--n-gpu-layers"], layers < 0 ? all : String(layers));
  if (split !== undefined) {
    builder.add("hardware.gpu.sharding.strategy", ["--split-mode"], split.mode);
    const { parts } = split;
    if (parts !== undefined)
      builder.add("hardware.gpu.sharding.layerSplit", ["--tensor-split"], parts.join(","));
  }
  const tensors = settings.tensorOverrides ?? [];
  if (tensors.length > 0) builder.add("tensorOverrides", ["--override-tensor"], tensors.join(","));
  addMetadata(builder, settings.metadataOverrides ?? []);
}

/** Newer builds accept one list and use only the last of several flags; older builds accept only several flags. */
function addMetadata(builder: ArgvBuilder, overrides: readonly string[]): void {
  if (overrides.length === 0) return;
  const takesList = builder.flag("--override-kv")?.description.includes("comma-separated") === true;
  if (takesList) builder.add("metadataOverrides", ["--override-kv"], overrides.join(","));
  else for (const one of overrides) builder.add("metadataOverrides", ["--override-kv"], one);
}

/** Rerank requires its three flags together, otherwise requests fail with 501. */
function addMode(builder: ArgvBuilder, settings: EngineSettings): void {
  switch (settings.mode) {
    case "chat":
      return;
    case "embedding":
      builder.add("mode", ["--embedding", "--embeddings"]);
      if (settings.pooling !== undefined) builder.add("pooling", ["--pooling"], settings.pooling);
      return;
    case "rerank":
      builder.add("mode", ["--embedding", "--embeddings"]);
      builder.add("mode", ["--pooling"], "rank");
      builder.add("mode", ["--rerank", "--reranking"]);
      return;
    default:
      settings.mode satisfies never;
  }
}

function addChat(builder: ArgvBuilder, { settings, chatTemplatePath }: LlamaServerInput): void {
  if (settings.jinja === true) builder.add("jinja", ["--jinja"]);
  if (settings.jinja === false && !builder.addIfKnown(["--no-jinja"]) && isOnByDefault(builder, "--jinja")) {
    builder.refuse(
      "jinja",
      `llama-server ${builder.capabilities.version} cannot turn its chat templates off`,
    );
  }
  if (chatTemplatePath !== undefined) {
    // Builds in which Jinja is off by default accept only their built-in templates.
    if (settings.jinja === undefined && !isOnByDefault(builder, "--jinja")) builder.addIfKnown(["--jinja"]);
    builder.add("chatTemplate", ["--chat-template-file"], chatTemplatePath);
  }
  const budget = settings.reasoningBudget;
  if (budget !== undefined) addReasoningBudget(builder, budget);
  const message = settings.reasoningBudgetMessage;
  if (message === undefined) return;
  if (budget === undefined) builder.refuse("reasoningBudgetMessage", "it needs reasoningBudget");
  else builder.add("reasoningBudgetMessage", ["--reasoning-budget-message"], message);
}

/** Older builds accept one adapter per flag, with its scale as a second value. */
function addLora(builder: ArgvBuilder, adapters: readonly LoraAdapter[]): void {
  if (adapters.length === 0) return;
  const [field, flag] = ["loraAdapters", "--lora-scaled"];
  if (builder.flag(flag)?.value === "FNAME SCALE") {
    for (const { path, scale } of adapters) builder.argv.push(flag, path, String(scale));
    return;
  }
  const unusable = adapters.find(({ path }) => /[,:]/.test(path));
  if (unusable !== undefined) builder.refuse(field, `${unusable.path} has a comma or a colon in its path`);
  else builder.add(field, [flag], adapters.map(({ path, scale }) => `${path}:${scale}`).join(","));
}

/** 0 disables thinking. Older builds accept no other number. */
function addReasoningBudget(builder: ArgvBuilder, budget: number): void {
  const isSwitch = builder.flag("--reasoning-budget")?.description.includes("only one of") === true;
  if (budget > 0 && isSwitch) {
    builder.refuse("reasoningBudget", `llama-server ${builder.capabilities.version} takes no budget but 0`);
  } else {
    builder.add("reasoningBudget", ["--reasoning-budget"], String(budget));
  }
}

function isOnByDefault(builder: ArgvBuilder, name: string): boolean {
  return builder.flag(name)?.description.includes("default: enabled") === true;
}

/** Settings of other engines. */
const FOREIGN = (Object.keys(engineFields) as (keyof typeof engineFields)[]).filter(
  (field) => !LLAMACPP_SETTINGS.some((own) => own === field),
);

function refuseForeign(builder: ArgvBuilder, settings: EngineSettings): void {
  for (const field of FOREIGN)
    if (settings[field] !== undefined) builder.refuse(field, "llama-server has no such setting");
}

const BLOCK = 32;
const UNQUANTIZED = new Set(["f32", "f16", "bf16"]);

/** Sets all values explicitly, so that the engine uses what was claimed. A build without a flag lacks the feature, too. */
function addContext(builder: ArgvBuilder, { settings, gguf }: LlamaServerInput): void {
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
function addCacheSettings(builder: ArgvBuilder, { settings, gguf }: LlamaServerInput): void {
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

const LONG_NAMES: Readonly<Record<string, string>> = { draft: "draft-simple", mtp: "draft-mtp" };
/** Flags that limit the length of a draft, by type. */
const MAX_FLAGS: Readonly<Record<string, readonly string[]>> = {
  "ngram-simple": ["--spec-ngram-simple-size-m", "--spec-ngram-size-m"],
  "ngram-map-k": ["--spec-ngram-map-k-size-m", "--spec-ngram-size-m"],
  "ngram-map-k4v": ["--spec-ngram-map-k4v-size-m", "--spec-ngram-size-m"],
  "ngram-mod": ["--spec-ngram-mod-n-max"],
};
const DRAFT_MAX_FLAGS = ["--spec-draft-n-max", "--draft-max"];
const NEEDS_MODEL = new Set(["draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"]);

/** Arguments for speculative decoding with a draft model, the model's own heads, or the preceding text. */
function addDraft(builder: ArgvBuilder, { settings, draftPath }: LlamaServerInput): void {
  const speculative = settings.speculativeDecoding;
  if (speculative === undefined || speculative.type === "none" || speculative.type === "disabled") return;
  const { nDraftMax, pMin } = speculative;
  const type = LONG_NAMES[speculative.type] ?? speculative.type;
  addType(builder, type);
  addModel(builder, type, draftPath);
  const field = "speculativeDecoding";
  const isDraft = type.startsWith("draft-");
  if (nDraftMax !== undefined) {
    const flags = isDraft ? DRAFT_MAX_FLAGS : MAX_FLAGS[type];
    if (flags === undefined) builder.refuse(`${field}.nDraftMax`, `${type} has no such limit`);
    else builder.add(`${field}.nDraftMax`, flags, String(nDraftMax));
  }
  if (pMin !== undefined) {
    if (isDraft) builder.add(`${field}.pMin`, ["--spec-draft-p-min", "--draft-p-min"], String(pMin));
    else builder.refuse(`${field}.pMin`, `${type} drafts without a model and has no such limit`);
  }
}

/** Builds without `--spec-type` use speculative decoding if they get a draft model. */
function addType(builder: ArgvBuilder, type: string): void {
  if (type === "draft-simple" && builder.flag("--spec-type") === undefined) return;
  builder.add("speculativeDecoding.type", ["--spec-type"], type);
}

function addModel(builder: ArgvBuilder, type: string, draftPath: string | undefined): void {
  if (draftPath !== undefined) {
    builder.add("speculativeDecoding.draftModelRef", ["--spec-draft-model", "--model-draft"], draftPath);
    builder.addIfKnown(["--spec-draft-ngl", "--n-gpu-layers-draft"], "999");
  } else if (NEEDS_MODEL.has(type)) {
    builder.refuse("speculativeDecoding.draftModelRef", `${type} needs a draft model`);
  }
}
