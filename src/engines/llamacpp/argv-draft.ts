/** Speculative decoding: by a draft model, by the model's own heads, or from the text so far. */

import type { ArgvBuilder } from "./argv-builder.ts";
import type { LlamaServerInput } from "./argv-input.ts";

const LONG_NAMES: Readonly<Record<string, string>> = { draft: "draft-simple", mtp: "draft-mtp" };
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
    if (isDraft)
      builder.add(`${field}.nDraftMax`, ["--spec-draft-n-max", "--draft-max"], String(wanted.nDraftMax));
    else builder.refuse(`${field}.nDraftMax`, `${type} drafts without a model and has no such limit`);
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
