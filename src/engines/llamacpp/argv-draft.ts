/** Speculative decoding: by a draft model, by the model's own heads, or from the text so far. */

import type { ArgvBuilder } from "./argv-builder.ts";
import type { LlamaServerInput } from "./argv-input.ts";

const LONG_NAMES: Readonly<Record<string, string>> = { draft: "draft-simple", mtp: "draft-mtp" };
/** Flags that limit a draft: by type, and those of all draft models. */
const MAX_FLAGS: Readonly<Record<string, readonly string[]>> = {
  "ngram-simple": ["--spec-ngram-simple-size-m", "--spec-ngram-size-m"],
  "ngram-map-k": ["--spec-ngram-map-k-size-m", "--spec-ngram-size-m"],
  "ngram-map-k4v": ["--spec-ngram-map-k4v-size-m", "--spec-ngram-size-m"],
  "ngram-mod": ["--spec-ngram-mod-n-max"],
};
const DRAFT_MAX_FLAGS = ["--spec-draft-n-max", "--draft-max"];
const NEEDS_MODEL = new Set(["draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"]);

export function addDraft(builder: ArgvBuilder, { settings, draftPath }: LlamaServerInput): void {
  const wanted = settings.speculativeDecoding;
  if (wanted === undefined || wanted.type === "none" || wanted.type === "disabled") return;
  const type = LONG_NAMES[wanted.type] ?? wanted.type;
  addType(builder, type);
  addModel(builder, type, draftPath);
  const field = "speculativeDecoding";
  const isDraft = type.startsWith("draft-");
  if (wanted.nDraftMax !== undefined) {
    const flags = isDraft ? DRAFT_MAX_FLAGS : MAX_FLAGS[type];
    if (flags === undefined) builder.refuse(`${field}.nDraftMax`, `${type} has no such limit`);
    else builder.add(`${field}.nDraftMax`, flags, String(wanted.nDraftMax));
  }
  if (wanted.pMin !== undefined) {
    if (isDraft) builder.add(`${field}.pMin`, ["--spec-draft-p-min", "--draft-p-min"], String(wanted.pMin));
    else builder.refuse(`${field}.pMin`, `${type} drafts without a model and has no such limit`);
  }
}

/** Builds without `--spec-type` speculate exactly when they are given a draft model. */
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
