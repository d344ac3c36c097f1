/** Arguments for speculative decoding with a draft model, the model's own heads, or the preceding text. */

import type { ArgvBuilder } from "./argv-builder.ts";
import type { LlamaServerInput } from "./argv-input.ts";

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

export function addDraft(builder: ArgvBuilder, { settings, draftPath }: LlamaServerInput): void {
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
